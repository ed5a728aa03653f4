// Command virtctl has the commands of KubeVirt's virtctl that docs/install.md names: the whole
// imports modules that are not in every module proxy.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"kubevirt.io/client-go/kubecli"
	"kubevirt.io/kubevirt/pkg/virtctl/clientconfig"
	"kubevirt.io/kubevirt/pkg/virtctl/vm"
)

func main() {
	root := &cobra.Command{Use: "virtctl", SilenceUsage: true}
	config := kubecli.DefaultClientConfig(root.PersistentFlags())
	root.AddCommand(vm.NewStartCommand(), vm.NewStopCommand(), vm.NewRestartCommand())
	if err := root.ExecuteContext(clientconfig.NewContext(context.Background(),
		config)); err != nil {
		os.Exit(1)
	}
}
