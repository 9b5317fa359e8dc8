package cli

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/internal/kubeapi"
	"github.com/tradewind-broker/tradewind/internal/kubedeploy"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// kubernetesScheme starts the endpoint of a deployment in a cluster: kubernetes://CONTEXT/NAMESPACE.
const kubernetesScheme = "kubernetes://"

// inCluster connects to the broker in a cluster through a local port that is forwarded to its pod while the command
// runs. It reads the token from the secret that the broker wrote.
func (a *app) inCluster(ctx context.Context, raw string, given bool) (*conn, error) {
	name, namespace, err := readCluster(raw)
	if err != nil {
		return nil, err
	}
	api, err := kubeapi.Open(name)
	if err != nil {
		return nil, command.Because(
			err,
			command.ExitBadInput,
			"`kubectl config get-contexts` lists the contexts",
			"%s: %v",
			raw,
			err,
		)
	}
	pods, err := api.Get(ctx, kubeapi.Path("v1", "pods", namespace, "")+"?labelSelector=app.kubernetes.io%2Fname%3D"+
		kubedeploy.Name)
	if err != nil {
		return nil, command.Because(err, command.ExitFailed, "", "%s: cannot list the pods: %v", raw, err)
	}
	pod := ""
	for _, p := range pods.Items() {
		if p.Text("status", "phase") == "Running" && p.At("metadata", "deletionTimestamp") == nil {
			pod = p.Text("metadata", "name")
		}
	}
	if pod == "" {
		return nil, command.Failed("`tradewind deploy kubernetes` deploys one, and `kubectl get pods -n "+namespace+
			"` shows its state", "%s: no broker is running", raw)
	}
	token := a.Lookup(client.EnvToken)
	if token == "" {
		if token, err = clusterToken(ctx, api, namespace); err != nil {
			return nil, command.Because(err, command.ExitFailed, "or set $"+client.EnvToken, "%s: %v", raw, err)
		}
	}
	port, err := api.Forward(ctx, namespace, pod, kubedeploy.Port)
	if err != nil {
		return nil, command.Because(err, command.ExitFailed, "", "%s: %v", raw, err)
	}
	base := fmt.Sprintf("http://127.0.0.1:%d", port)
	s := &conn{running: host.Running{URL: base, TimeScale: 1}, state: raw, remote: true}
	if given {
		s.hint = " --endpoint " + raw
	}
	s.Client = client.New(base, token)
	return s, nil
}

// readCluster parses kubernetes://CONTEXT/NAMESPACE. Context names may contain slashes, namespaces cannot.
func readCluster(raw string) (name, namespace string, err error) {
	rest := strings.TrimSuffix(strings.TrimPrefix(raw, kubernetesScheme), "/")
	i := strings.LastIndexByte(rest, '/')
	if i < 0 || rest[i+1:] == "" || strings.ContainsAny(rest[i+1:], "?#:@") {
		return "", "", command.BadInput(
			"use kubernetes://my-context/tradewind, or kubernetes:///tradewind for the current context",
			"%q has no namespace",
			raw,
		)
	}
	return rest[:i], rest[i+1:], nil
}

// clusterToken reads the token from the secret that the broker of a namespace wrote.
func clusterToken(ctx context.Context, api *kubeapi.API, namespace string) (string, error) {
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
