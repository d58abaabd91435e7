// Command controlplane is a Kubernetes control plane in one binary, for tests:
// etcd, kube-apiserver and kube-controller-manager are its subcommands and take
// their usual flags.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	_ "time/tzdata" // CronJob time zones, also where no zone database is installed.

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/version"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // build_info metric
	kubeversion "k8s.io/component-base/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

// subcommands makes a command only when it is run: making one registers flags
// and feature gates that belong to that component alone.
var subcommands = map[string]func() *cobra.Command{
	"etcd":                    newEtcdCommand,
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"version":                 newVersionCommand,
}

func main() {
	if len(os.Args) < 2 || subcommands[os.Args[1]] == nil {
		fmt.Fprintf(os.Stderr, "usage: %s etcd|kube-apiserver|kube-controller-manager|version [flags]\n",
			filepath.Base(os.Args[0]))
		os.Exit(2)
	}
	command := subcommands[os.Args[1]]()
	command.SetArgs(os.Args[2:])
	os.Exit(cli.Run(command))
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of what is built in",
		Args:  cobra.NoArgs,
		Run: func(command *cobra.Command, _ []string) {
			fmt.Fprintf(command.OutOrStdout(), "kubernetes %s\netcd v%s\n%s\n",
				kubeversion.Get().GitVersion, version.Version, runtime.Version())
		},
	}
}
