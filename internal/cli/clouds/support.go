package clouds

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/grant/lazy"
	"github.com/tradewind-broker/tradewind/internal/secret"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Support is what a program can do with clouds and clusters. Most of a program's code are the clients of clouds, so
// that `make run` builds one without them (None); package everycloud has them all.
type Support struct {
	Kits []cloudkit.Kit
	// Stores and Secrets are those of the user's accounts, by scheme.
	Stores  grant.Mux
	Secrets map[string]secret.Source
	// Deploy returns the command that deploys the broker, for machines on the named clouds.
	Deploy func(in *command.App, clouds []string) *cobra.Command
	// Forward connects to the broker at an endpoint in a cluster, through a port of this computer. Without a token, it
	// reads the broker's own.
	Forward func(ctx context.Context, endpoint ClusterEndpoint, token string) (Forwarded, error)
	// ClusterJobs finds the cluster of the kubeconfig or pod, whose Job objects a broker can run.
	ClusterJobs func() (*ClusterJobs, error)
}

// ClusterEndpoint is a parsed kubernetes://CONTEXT/NAMESPACE. An empty context is the current one.
type ClusterEndpoint struct{ Raw, Context, Namespace string }

// Forwarded is a broker in a cluster that a port of this computer leads to while the context lasts.
type Forwarded struct{ URL, Token string }

// ClusterJobs runs the Job objects of a namespace.
type ClusterJobs struct {
	// Hosts are the DNS names of a deployment's service in the cluster.
	Hosts []string
	// Run runs the objects until ctx ends, and stores the broker's token in a secret. It returns at once.
	Run func(ctx context.Context, b JobBroker, token string, log *slog.Logger) (wait func())
}

// JobBroker is a broker that runs the jobs of a cluster.
type JobBroker interface {
	Submit(ctx context.Context, name, key string, file []byte, secrets map[string]string) (*apitypes.Submitted, error)
	Job(ctx context.Context, id string) (*apitypes.JobDetail, error)
	Cancel(ctx context.Context, id, reason string) (*apitypes.JobView, error)
}

// errNone says why a program without clouds cannot do something.
func errNone() error {
	return command.Failed("`make build` builds the whole program; `make run` leaves the clouds out, to be quick",
		"this program was built without the clouds: it can only simulate them")
}

// None is the support of a program that was built without clouds. Everything fails with an error that says so.
func None() Support {
	store := &lazy.Store{Open: func(context.Context) (grant.Store, error) { return nil, errNone() }}
	return Support{
		Stores: grant.Mux{"s3": store, "gs": store, "azblob": store},
		Deploy: func(*command.App, []string) *cobra.Command {
			return without("deploy", "Deploy the broker to AWS or Kubernetes")
		},
		Forward: func(context.Context, ClusterEndpoint, string) (Forwarded, error) {
			return Forwarded{}, errNone()
		},
		ClusterJobs: func() (*ClusterJobs, error) { return nil, errNone() },
	}
}

// without returns a command that a program without clouds has only in name.
func without(name, short string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error { return errNone() },
	}
}

// Unknown is the error for a cloud that is not among the kits. The flag is "" for an argument.
func Unknown(kits []cloudkit.Kit, flag, name string) error {
	if len(kits) == 0 {
		return errNone()
	}
	if flag != "" {
		flag += ": "
	}
	return command.BadInput(fault.OneOf(name, cloudkit.Names(kits)), "%sunknown cloud %q", flag, name)
}
