package manifests

import (
	"context"
	"encoding/json"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/discovery"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi/openapitest"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components/validatingadmissionpolicies"

	"hook-sidecar/test/expect"
)

// apiServer has kube-apiserver's two plugins for admission policies, over a store
// that the test fills.
type apiServer struct {
	scheme     *runtime.Scheme
	mutating   *mutating.Plugin
	validating *validating.Plugin
}

// newAPIServer starts the plugins over policies, bindings and their parameters,
// and the policies that KubeVirt's operator installs.
func newAPIServer(t *testing.T, objects []runtime.Object) apiServer {
	t.Helper()
	s := apiServer{scheme: scheme(t)}
	stored := []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}}
	for _, object := range objects {
		switch object.(type) {
		case *admissionv1.MutatingAdmissionPolicy, *admissionv1.MutatingAdmissionPolicyBinding,
			*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding, *corev1.ConfigMap:
			stored = append(stored, object)
		}
	}

	stored = append(stored, kubeVirtPolicies()...)
	setDefaults(stored)
	client := storeClient{fake.NewClientset(stored...)}
	factory := informers.NewSharedInformerFactory(client, 0)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)

	var err error
	if s.mutating, err = mutating.NewPlugin(nil); err != nil {
		t.Fatal(err)
	}

	if s.validating, err = validating.NewPlugin(nil); err != nil {
		t.Fatal(err)
	}

	set := initializer.New(client, dynamicfake.NewSimpleDynamicClient(s.scheme), factory,
		authorizerfactory.NewAlwaysAllowAuthorizer(),
		utilfeature.DefaultFeatureGate, compatibility.DefaultBuildEffectiveVersion(), ctx.Done(),
		mapper)

	for _, plugin := range []admission.Interface{s.mutating, s.validating} {
		set.Initialize(plugin)
	}

	s.mutating.SetEnabled(true)
	s.validating.SetEnabled(true)
	for _, plugin := range []admission.InitializationValidator{s.mutating, s.validating} {
		expect.NoError(t, plugin.ValidateInitialization())
	}

	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return s
}

// storeClient is a client of the store. client-go's own fake panics when it is asked
// for OpenAPI schemas.
type storeClient struct{ *fake.Clientset }

func (c storeClient) Discovery() discovery.DiscoveryInterfaces {
	return schemas{c.Clientset.Discovery()}
}

// schemas has the schemas of Kubernetes' own kinds.
type schemas struct{ discovery.DiscoveryInterfaces }

func (schemas) OpenAPIV3() openapi.Client { return openapitest.NewEmbeddedFileClient() }

func (schemas) OpenAPIV3WithContext(context.Context) openapi.ClientWithContext {
	return openapi.ToClientWithContext(openapitest.NewEmbeddedFileClient())
}

// kubeVirtPolicies returns the admission policies that KubeVirt 1.9 installs for plugins, made by
// its own code.
func kubeVirtPolicies() []runtime.Object {
	return []runtime.Object{
		validatingadmissionpolicies.NewPluginValidatingAdmissionPolicy(),
		validatingadmissionpolicies.NewPluginValidatingAdmissionPolicyBinding(),
		validatingadmissionpolicies.NewPluginSocketPathValidatingAdmissionPolicy(),
		validatingadmissionpolicies.NewPluginSocketPathValidatingAdmissionPolicyBinding(),
		validatingadmissionpolicies.NewSidecarSubPathValidatingAdmissionPolicy(),
		validatingadmissionpolicies.NewSidecarSubPathValidatingAdmissionPolicyBinding(),
	}
}

// setDefaults sets the defaults that kube-apiserver sets in policies and bindings
// when it stores them (Kubernetes pkg/apis/admissionregistration/v1/defaults.go).
func setDefaults(objects []runtime.Object) {
	for _, object := range objects {
		switch o := object.(type) {
		case *admissionv1.MutatingAdmissionPolicy:
			defaultMatch(o.Spec.MatchConstraints)
		case *admissionv1.MutatingAdmissionPolicyBinding:
			defaultMatch(o.Spec.MatchResources)
		case *admissionv1.ValidatingAdmissionPolicy:
			defaultMatch(o.Spec.MatchConstraints)
		case *admissionv1.ValidatingAdmissionPolicyBinding:
			defaultMatch(o.Spec.MatchResources)
		}
	}
}

func defaultMatch(match *admissionv1.MatchResources) {
	if match == nil {
		return
	}

	if match.MatchPolicy == nil {
		match.MatchPolicy = new(admissionv1.Equivalent)
	}

	if match.NamespaceSelector == nil {
		match.NamespaceSelector = &metav1.LabelSelector{}
	}

	if match.ObjectSelector == nil {
		match.ObjectSelector = &metav1.LabelSelector{}
	}

	for i := range match.ResourceRules {
		if rule := &match.ResourceRules[i].Rule; rule.Scope == nil {
			rule.Scope = new(admissionv1.AllScopes)
		}
	}
}

// createPod returns the pod that is stored when this one is created.
func (s apiServer) createPod(t *testing.T, pod *corev1.Pod) (*corev1.Pod, error) {
	t.Helper()
	attributes := s.attributes(pod, corev1.SchemeGroupVersion, "Pod", "pods", pod.Namespace,
		pod.Name)
	interfaces := admission.NewObjectInterfacesFromScheme(s.scheme)
	if err := s.mutating.Admit(t.Context(), attributes, interfaces); err != nil {
		return nil, err
	}

	return attributes.GetObject().(*corev1.Pod), s.validating.Validate(t.Context(), attributes,
		interfaces)
}

// createPlugin returns the refusal of a plugin's creation.
func (s apiServer) createPlugin(t *testing.T, plugin *pluginv1alpha1.Plugin) error {
	t.Helper()
	attributes := s.attributes(plugin, pluginv1alpha1.SchemeGroupVersion, "Plugin", "plugins", "",
		plugin.Name)
	return s.validating.Validate(t.Context(), attributes,
		admission.NewObjectInterfacesFromScheme(s.scheme))
}

func (s apiServer) attributes(
	object runtime.Object, version schema.GroupVersion, kind, resource, namespace, name string,
) admission.Attributes {
	return admission.NewAttributesRecord(object.DeepCopyObject(), nil, version.WithKind(kind),
		namespace, name,
		version.WithResource(resource), "", admission.Create, &metav1.CreateOptions{}, false,
		&user.DefaultInfo{
			Name: "virt-controller",
		})
}

func toJSON(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	expect.NoError(t, err)
	return string(data)
}
