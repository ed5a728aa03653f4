package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfig is the cluster, the namespace and the user that kubectl's flags and the kubeconfig name.
// k8s.io/cli-runtime has these flags, too, and with them kustomize and the types of all API groups: they
// would be 16 MB more, and double the time in which the program starts.
type kubeconfig struct {
	rules     *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
}

func newKubeconfig() *kubeconfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	// Without a kubeconfig the server is localhost:8080 or KUBERNETES_MASTER, as for kubectl.
	rules.DefaultClientConfig = &clientcmd.DefaultClientConfig
	return &kubeconfig{
		rules:     rules,
		overrides: clientcmd.ConfigOverrides{ClusterDefaults: clientcmd.ClusterDefaults},
	}
}

// addFlags adds kubectl's flags.
func (k *kubeconfig) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&k.rules.ExplicitPath, clientcmd.RecommendedConfigPathFlag, "",
		"Path to the kubeconfig file")

	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	// No API server takes passwords since Kubernetes 1.19.
	names.AuthOverrideFlags.Username = clientcmd.FlagInfo{}
	names.AuthOverrideFlags.Password = clientcmd.FlagInfo{}
	clientcmd.BindOverrideFlags(&k.overrides, flags, names)

	flags.Var(userExtra{&k.overrides.AuthInfo}, "as-user-extra",
		"Extra of the user to impersonate; may be repeated, also for one key")
}

// namespace is the one that -n names, "" without that flag.
func (k *kubeconfig) namespace() string { return k.overrides.Context.Namespace }

// load reads the kubeconfig.
func (k *kubeconfig) load() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(k.rules, &k.overrides)
}

// userExtra is a flag that adds to what impersonation says of a user.
type userExtra struct{ *api.AuthInfo }

// Set adds a value to those of a key.
func (u userExtra) Set(text string) error {
	key, value, isPair := strings.Cut(text, "=")
	if !isPair || key == "" {
		return fmt.Errorf("must be %s", u.Type())
	}

	if u.ImpersonateUserExtra == nil {
		u.ImpersonateUserExtra = map[string][]string{}
	}

	u.ImpersonateUserExtra[key] = append(u.ImpersonateUserExtra[key], value)
	return nil
}

// Type returns the form of a value, for --help and errors.
func (userExtra) Type() string { return "KEY=VALUE" }

// String returns the default: none.
func (userExtra) String() string { return "" }
