// Package cluster connects the command line to Kubernetes: to the broker that runs in a cluster, and to the Job objects
// that a broker runs for a namespace.
package cluster

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/kubeapi"
	"github.com/tradewind-broker/tradewind/internal/kubedeploy"
	"github.com/tradewind-broker/tradewind/internal/kubejobs"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// Forward implements clouds.Support.
func Forward(ctx context.Context, at clouds.ClusterEndpoint, token string) (b clouds.Forwarded, err error) {
	api, err := kubeapi.Open(at.Context)
	if err != nil {
		return b, command.Because(err, command.ExitBadInput,
			"`kubectl config get-contexts` lists the contexts", "%s: %v", at.Raw, err)
	}
	pods, err := api.Get(ctx, kubeapi.Path("v1", "pods", at.Namespace, "")+"?labelSelector=app.kubernetes.io%2Fname%3D"+
		kubedeploy.Name)
	if err != nil {
		return b, command.Because(err, command.ExitFailed, "", "%s: cannot list the pods: %v", at.Raw, err)
	}
	pod := ""
	for _, p := range pods.Items() {
		if p.Text("status", "phase") == "Running" && p.At("metadata", "deletionTimestamp") == nil {
			pod = p.Text("metadata", "name")
		}
	}
	if pod == "" {
		return b, command.Failed("`tradewind deploy kubernetes` deploys one, and `kubectl get pods -n "+
			at.Namespace+"` shows its state", "%s: no broker is running", at.Raw)
	}
	if token == "" {
		if token, err = readToken(ctx, api, at.Namespace); err != nil {
			return b, command.Because(err, command.ExitFailed, "or set $"+client.EnvToken, "%s: %v", at.Raw, err)
		}
	}
	port, err := api.Forward(ctx, at.Namespace, pod, kubedeploy.Port)
	if err != nil {
		return b, command.Because(err, command.ExitFailed, "", "%s: %v", at.Raw, err)
	}
	return clouds.Forwarded{URL: fmt.Sprintf("http://127.0.0.1:%d", port), Token: token}, nil
}

// readToken reads the token from the secret that the broker of a namespace wrote.
func readToken(ctx context.Context, api *kubeapi.API, namespace string) (string, error) {
	o, err := api.Get(ctx, kubeapi.Path("v1", "secrets", namespace, kubedeploy.TokenSecret))
	if err != nil {
		return "", fmt.Errorf("cannot read the token: %w", err)
	}
	token, err := base64.StdEncoding.DecodeString(o.Text("data", kubedeploy.TokenKey))
	if err != nil || len(token) == 0 {
		return "", fmt.Errorf("the secret %s has no token", kubedeploy.TokenSecret)
	}
	return string(token), nil
}

// lookEvery is how often the cluster is polled for new objects.
const lookEvery = 2 * time.Second

// Jobs implements clouds.Support.
func Jobs() (*clouds.ClusterJobs, error) {
	api, err := kubeapi.Open("")
	if err != nil {
		return nil, command.Because(err, command.ExitBadInput, "$KUBECONFIG names another file", "%v", err)
	}
	return &clouds.ClusterJobs{
		Hosts: kubedeploy.Hosts(api.Namespace),
		Run: func(ctx context.Context, b clouds.JobBroker, token string, log *slog.Logger) (wait func()) {
			c := &kubejobs.Controller{Cluster: api, Broker: b, Namespace: api.Namespace, Log: log, Every: lookEvery}
			var wg sync.WaitGroup
			wg.Go(func() { leaveToken(ctx, api, token, log) })
			wg.Go(func() { c.Run(ctx) })
			return wg.Wait
		},
	}, nil
}

// leaveToken stores the broker's token in a secret of the namespace, as soon as the cluster answers.
func leaveToken(ctx context.Context, api *kubeapi.API, token string, log *slog.Logger) {
	left := func() error { return kubejobs.LeaveToken(ctx, api, api.Namespace, token) }
	for err := left(); err != nil && ctx.Err() == nil; err = left() {
		log.Warn("cannot store the token in the cluster", "err", err)
		if clock.Pause(ctx, lookEvery) != nil {
			return
		}
	}
}
