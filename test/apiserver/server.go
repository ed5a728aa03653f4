package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	authentication "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kubevirt is the group of VMs and VMIs.
const kubevirt = "kubevirt.io"

// Start serves the cluster. Without a VMI, a VM and a KubeVirt it has no KubeVirt: it does not
// serve its group.
func (c *Cluster) Start() *httptest.Server {
	const policies = "admissionregistration.k8s.io"
	groups := map[string]string{
		"/api/v1":                   "",
		"/apis/" + policies + "/v1": policies,
		"/apis/resource.k8s.io/v1":  "resource.k8s.io",
		"/apis/apps/v1":             "apps",
		"/apis/policy/v1":           "policy",
	}

	if slices.ContainsFunc(c.objects, func(d document) bool {
		return strings.HasPrefix(d.Kind, "VirtualMachine") || d.Kind == "KubeVirt"
	}) {
		groups["/apis/"+kubevirt+"/v1"] = kubevirt
		groups["/apis/snapshot."+kubevirt+"/v1beta1"] = "snapshot." + kubevirt
	}

	if slices.ContainsFunc(c.objects, func(d document) bool { return d.Kind == "Plugin" }) {
		groups["/apis/plugin."+kubevirt+"/v1alpha1"] = "plugin." + kubevirt
	}

	if slices.ContainsFunc(c.objects, func(d document) bool { return d.Kind == "DataVolume" }) {
		groups["/apis/cdi."+kubevirt+"/v1beta1"] = "cdi." + kubevirt
	}

	if slices.ContainsFunc(c.objects, func(d document) bool {
		return d.Kind == "SriovNetworkNodeState"
	}) {
		groups["/apis/sriovnetwork.openshift.io/v1"] = "sriovnetwork.openshift.io"
	}

	mux := http.NewServeMux()
	c.serveTaintRules(mux)
	for path, group := range groups {
		list := func(w http.ResponseWriter, r *http.Request) { c.list(w, r, group) }
		mux.HandleFunc("GET "+path+"/{resource}", list)
		mux.HandleFunc("GET "+path+"/namespaces/{namespace}/{resource}", list)
		get := func(w http.ResponseWriter, r *http.Request) { c.get(w, r, group) }
		mux.HandleFunc("GET "+path+"/{resource}/{name}", get)
		mux.HandleFunc("GET "+path+"/namespaces/{namespace}/{resource}/{name}", get)
	}

	mux.HandleFunc("POST /api/v1/namespaces/{namespace}/pods", c.create)
	mux.HandleFunc("DELETE /api/v1/namespaces/{namespace}/pods/{name}", c.delete)
	mux.HandleFunc("/api/v1/namespaces/{namespace}/pods/{name}/exec", c.exec)
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods/{name}/log", c.log)
	return httptest.NewServer(mux)
}

// serveTaintRules serves DeviceTaintRules in the version that one has, as an API server of that time
// does, and in none without one.
func (c *Cluster) serveTaintRules(mux *http.ServeMux) {
	served := ""
	for _, d := range c.objects {
		if d.Kind == "DeviceTaintRule" {
			served = fmt.Sprint(d.object["apiVersion"])
		}
	}

	for _, version := range []string{"v1", "v1beta2", "v1alpha3"} {
		const group, resource = "resource.k8s.io", "devicetaintrules"
		mux.HandleFunc("GET /apis/"+group+"/"+version+"/"+resource, func(
			w http.ResponseWriter, r *http.Request,
		) {
			rules := schema.GroupResource{Group: group, Resource: resource}
			if err := c.refuse(r, "list", rules); err != nil {
				fail(w, err) // whether it is served or not
				return
			}
			if served != group+"/"+version {
				http.NotFound(w, r)
				return
			}
			r.SetPathValue("resource", resource)
			c.list(w, r, group)
		})
	}
}

// resource returns what the API server calls the objects of a kind.
func (d document) resource() string {
	kind := strings.ToLower(d.Kind)
	if stem, endsInY := strings.CutSuffix(kind, "y"); endsInY {
		return stem + "ies"
	}

	if strings.HasSuffix(kind, "s") {
		kind += "e" // deviceclasses
	}

	return kind + "s"
}

func (c *Cluster) get(w http.ResponseWriter, r *http.Request, group string) {
	resource := schema.GroupResource{Group: group, Resource: r.PathValue("resource")}
	if err := c.refuse(r, "get", resource); err != nil {
		fail(w, err)
		return
	}

	for _, d := range c.objects {
		if d.resource() == resource.Resource && d.Metadata.Namespace == r.PathValue("namespace") &&
			d.Metadata.Name == r.PathValue("name") {
			reply(w, http.StatusOK, d.object)
			return
		}
	}

	fail(w, apierrors.NewNotFound(resource, r.PathValue("name")))
}

// create makes a pod, whose container waits to start unless a document says what it logs.
func (c *Cluster) create(w http.ResponseWriter, r *http.Request) {
	if err := c.refuse(r, "create", schema.GroupResource{Resource: "pods"}); err != nil {
		fail(w, err)
		return
	}

	var pod corev1.Pod
	if err := json.NewDecoder(r.Body).Decode(&pod); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}

	c.Made.Store(pod.Name, pod)
	reply(w, http.StatusCreated, pod)
}

func (c *Cluster) delete(w http.ResponseWriter, r *http.Request) {
	if err := c.refuse(r, "delete", schema.GroupResource{Resource: "pods"}); err != nil {
		fail(w, err)
		return
	}

	c.Made.Delete(r.PathValue("name"))
	reply(w, http.StatusOK, map[string]any{"kind": "Pod", "apiVersion": "v1"})
}

// list answers with a page. An API server may return fewer objects than the limit of the request.
func (c *Cluster) list(w http.ResponseWriter, r *http.Request, group string) {
	resource := schema.GroupResource{Group: group, Resource: r.PathValue("resource")}
	if err := c.refuse(r, "list", resource); err != nil {
		fail(w, err)
		return
	}

	selector, err := labels.Parse(r.FormValue("labelSelector"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}

	kind, items := "PodList", []any{} // which is what client-go decodes, also without an item
	for _, d := range c.objects {
		namespace := r.PathValue("namespace")
		if d.resource() == resource.Resource &&
			(namespace == "" || namespace == d.Metadata.Namespace) &&
			selector.Matches(labels.Set(d.Metadata.Labels)) {
			kind, items = d.Kind+"List", append(items, d.object)
		}
	}

	start, _ := strconv.Atoi(r.FormValue("continue"))
	metadata := map[string]any{}
	if limit := r.FormValue("limit"); limit != "" && len(items) > start+c.PageSize {
		items = items[:start+c.PageSize]
		metadata["continue"] = fmt.Sprint(start + c.PageSize)
	}

	reply(w, http.StatusOK, map[string]any{
		"kind": kind, "apiVersion": "v1", "metadata": metadata, "items": items[start:],
	})
}

// log prints what a container has logged.
func (c *Cluster) log(w http.ResponseWriter, r *http.Request) {
	resource := schema.GroupResource{Resource: "pods/log"}
	if err := c.refuse(r, "get", resource); err != nil {
		fail(w, err)
		return
	}

	for _, d := range c.containers {
		if !d.isOf(r.PathValue("namespace"), r.PathValue("name"), r.FormValue("container")) ||
			!c.has(r.PathValue("name"), d.Capability) {
			continue
		}

		if r.FormValue("previous") == "true" {
			d.Log = d.Previous
		}

		if d.LogFile != "" {
			http.ServeFile(w, r, filepath.Join(c.dir, d.LogFile))
			return
		}

		fmt.Fprint(w, d.Log)
		return
	}

	if _, isMade := c.Made.Load(r.PathValue("name")); isMade {
		fail(w,
			apierrors.NewBadRequest(
				"container is waiting to start: trying and failing to pull image"))
		return
	}

	fail(w, apierrors.NewNotFound(resource, r.PathValue("name")))
}

// has reports whether a pod that a client made has a capability; every pod has "".
func (c *Cluster) has(pod string, capability corev1.Capability) bool {
	made, isMade := c.Made.Load(pod)
	if capability == "" || !isMade {
		return capability == ""
	}

	return slices.ContainsFunc(made.(corev1.Pod).Spec.Containers, func(in corev1.Container) bool {
		s := in.SecurityContext
		return s != nil && s.Capabilities != nil && slices.Contains(s.Capabilities.Add, capability)
	})
}

// refuse returns the error of a request that the cluster refuses, nil for others. As in
// k8s.io/apiserver, impersonation is refused before the request itself.
func (c *Cluster) refuse(
	r *http.Request, verb string, resource schema.GroupResource,
) *apierrors.StatusError {
	if user := r.Header.Get(authentication.ImpersonateUserHeader); user != "" {
		if err := c.refusal("", user, "impersonate", schema.GroupResource{
			Resource: "users",
		}); err != nil {
			return err
		}
	}

	return c.refusal(r.PathValue("namespace"), r.PathValue("name"), verb, resource)
}

// refusal returns the error by which the cluster refuses a verb on an object, nil where it does
// not.
func (c *Cluster) refusal(
	namespace, name, verb string, resource schema.GroupResource,
) *apierrors.StatusError {
	i := slices.IndexFunc(c.refusals, func(d document) bool {
		return d.Verb == verb && d.Resource == resource.Resource &&
			(d.Metadata.Namespace == "" || d.Metadata.Namespace == namespace) &&
			(!d.AllNamespaces || namespace == "")
	})
	if i < 0 {
		return nil
	}

	message := c.refusals[i].Message
	if message == "" {
		// k8s.io/apiserver pkg/endpoints/handlers/responsewriters/errors.go, forbiddenMessage
		scope := "at the cluster scope"
		if namespace != "" {
			scope = fmt.Sprintf("in the namespace %q", namespace)
		}

		message = fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", "viewer", verb,
			resource.Resource, resource.Group, scope)
	}

	resource.Resource, _, _ = strings.Cut(resource.Resource, "/")
	return apierrors.NewForbidden(resource, name, errors.New(message))
}

func fail(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	reply(w, int(status.Code), status)
}

func reply(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(value) // an error is the client's, which has left
}
