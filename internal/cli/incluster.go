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

// kubernetesScheme is that of an endpoint which is a deployment in a cluster: kubernetes://CONTEXT/NAMESPACE.
const kubernetesScheme = "kubernetes://"

// inCluster is the session with the broker of a cluster, through a port of this computer that leads to its pod for as
// long as the command lasts. The token is that which the broker has left in a secret.
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
			"`kubectl config get-contexts` lists them",
			"%s: %v",
			raw,
			err,
		)
	}
	pods, err := api.Get(ctx, kubeapi.Path("v1", "pods", namespace, "")+"?labelSelector=app.kubernetes.io%2Fname%3D"+
		kubedeploy.Name)
	if err != nil {
		return nil, command.Because(err, command.ExitFailed, "", "%s: the pods cannot be listed: %v", raw, err)
	}
	pod := ""
	for _, p := range pods.Items() {
		if p.Text("status", "phase") == "Running" && p.At("metadata", "deletionTimestamp") == nil {
			pod = p.Text("metadata", "name")
		}
	}
	if pod == "" {
		return nil, command.Failed("`tradewind deploy kubernetes` makes one, and `kubectl get pods -n "+namespace+
			"` says how it is", "%s: no broker runs there", raw)
	}
	token := a.Lookup(client.EnvToken)
	if token == "" {
		if token, err = clusterToken(ctx, api, namespace); err != nil {
			return nil, command.Because(err, command.ExitFailed, "or give it in $"+client.EnvToken, "%s: %v", raw, err)
		}
	}
	port, err := api.Forward(ctx, namespace, pod, kubedeploy.Port)
	if err != nil {
		return nil, command.Because(err, command.ExitFailed, "", "%s: %v", raw, err)
	}
	base := fmt.Sprintf("http://127.0.0.1:%d", port)
	s := &conn{running: host.Running{URL: base, TimeScale: 1}, state: raw, elsewhere: true}
	if given {
		s.hint = " --endpoint " + raw
	}
	s.Client = client.New(base, token)
	return s, nil
}

// readCluster reads kubernetes://CONTEXT/NAMESPACE. Names of contexts may have slashes, those of namespaces have none.
func readCluster(raw string) (name, namespace string, err error) {
	rest := strings.TrimSuffix(strings.TrimPrefix(raw, kubernetesScheme), "/")
	i := strings.LastIndexByte(rest, '/')
	if i < 0 || rest[i+1:] == "" || strings.ContainsAny(rest[i+1:], "?#:@") {
		return "", "", command.BadInput(
			"as in kubernetes://my-context/tradewind; kubernetes:///tradewind is the current context",
			"%q does not say which namespace",
			raw,
		)
	}
	return rest[:i], rest[i+1:], nil
}

// clusterToken is the token that the broker of a namespace has left for those who may read its secrets.
func clusterToken(ctx context.Context, api *kubeapi.API, namespace string) (string, error) {
	o, err := api.Get(ctx, kubeapi.Path("v1", "secrets", namespace, kubedeploy.TokenSecret))
	if err != nil {
		return "", fmt.Errorf("the token cannot be read: %w", err)
	}
	token, err := base64.StdEncoding.DecodeString(o.Text("data", kubedeploy.TokenKey))
	if err != nil || len(token) == 0 {
		return "", fmt.Errorf("the secret %s has no token", kubedeploy.TokenSecret)
	}
	return string(token), nil
}
