package kubectl

import (
	"errors"
	"strings"
	"testing"
)

// Each missing right is named with the rule that gives it, and the manifest has each of
// these rules: viewer has it.
func (c *cluster) testRights(t *testing.T) {
	for user, want := range map[string]string{
		"nobody": `you may not get virtualmachineinstances in namespace default; ` +
			`kubectl-clusterrole.yaml of the release allows it, by the rule {apiGroups: ` +
			`["kubevirt.io"], resources: ["virtualmachineinstances"], verbs: ["get"]}`,
		"vmis": `you may not list pods in namespace default; kubectl-clusterrole.yaml of the ` +
			`release allows it, by the rule {apiGroups: [""], resources: ["pods"], verbs: ["list"]}`,
		"pods": `you may not create pods/exec in namespace default; kubectl-clusterrole.yaml of ` +
			`the release allows it, by the rule {apiGroups: [""], resources: ["pods/exec"], ` +
			`verbs: ["create"]}`,
	} {
		c.as(t, user, "explain", "dgx").fails(t, want)
	}

	if out := c.succeeds(t, "why", "dgx"); !strings.Contains(out, "runs on node "+node) {
		t.Errorf("why: %s", out)
	}

	// What the user may not read why leaves out and names.
	r := c.as(t, "pods", "why", "dgx")
	if !strings.Contains(r.out, "runs on node "+node) || r.code != 0 {
		t.Errorf("why: exit status %d: %s", r.code, r.out)
	}

	for _, rule := range []string{
		`[""], resources: ["events"], verbs: ["list"]`,
		`[""], resources: ["pods/log"], verbs: ["get"]`,
		`["kubevirt.io"], resources: ["virtualmachines"], verbs: ["get"]`,
	} {
		if strings.Count(r.err, "by the rule {apiGroups: "+rule) != 1 {
			t.Errorf("why does not name the rule %s once: %s", rule, r.err)
		}
	}

	c.as(t, "viewer", "explain", "dgx", "--as", "nobody").fails(t, "cannot impersonate",
		"you may not impersonate the user or group of --as")
}

// Without the right to get pods/exec a WebSocket is refused, and SPDY is spoken.
func (c *cluster) testSPDY(t *testing.T) {
	c.create(t, resource("rbac.authorization.k8s.io", "v1", "clusterroles"), fromYAML(t, []byte(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: exec}
rules: [{apiGroups: [""], resources: [pods/exec], verbs: [create]}]
`)))

	c.create(t, resource("rbac.authorization.k8s.io", "v1", "rolebindings"), fromYAML(t, []byte(`
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: exec, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: exec}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: pods}]
`)))

	r := c.as(t, "pods", "explain", "dgx")
	if same(t, "over SPDY", r.out, c.succeeds(t, "explain", "dgx")); r.code != 0 {
		t.Errorf("exit status %d: %s", r.code, r.err)
	}
}

// What admission refuses is no missing right.
func (c *cluster) testPolicy(t *testing.T) {
	c.create(t, resource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies"), fromYAML(t, []byte(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-exec}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CONNECT], resources: [pods/exec]}]
  validations: [{expression: "false", message: nobody may exec, reason: Forbidden}]
`)))

	c.create(t, resource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings"), fromYAML(t, []byte(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-exec}
spec: {policyName: no-exec, validationActions: [Deny]}
`)))

	until(t, "the policy", func() error { // it is active some time after it is stored
		if c.as(t, "viewer", "explain", "dgx").code == 0 {
			return errors.New("exec is allowed")
		}
		return nil
	})

	c.as(t, "viewer", "explain", "dgx").fails(t, "nobody may exec",
		"the cluster's policy refuses it, whatever the user's rights")
}
