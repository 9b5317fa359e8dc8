package lambdalabs_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/lambdalabs"
	"github.com/tradewind-broker/tradewind/internal/emulator/lambdacloud"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// digest is the digest of no agent. The machines of these tests run nothing.
var digest = strings.Repeat("0123456789abcdef", 4)

var offer = apitypes.Offer{
	Cloud: "lambda", Region: "us-east-1", InstanceType: "gpu_1x_a10", Accelerator: "A10", AccelCount: 1, USDPerHour: 0.75,
}

// world is an emulated account, and a deployment's driver for it.
type world struct {
	*testing.T
	account *lambdacloud.Cloud
	cfg     lambdalabs.Config
	lambda  *lambdalabs.Cloud
	log     *bytes.Buffer
}

func newWorld(t *testing.T, change func(*lambdalabs.Config)) *world {
	t.Helper()
	w := &world{T: t, log: &bytes.Buffer{}}
	w.account = lambdacloud.New(lambdacloud.Config{Fault: func(err error) { t.Errorf("not as documented: %v", err) }})
	server := httptest.NewServer(w.account)
	t.Cleanup(server.Close)
	w.cfg = lambdalabs.Config{
		Deployment: "test", Key: key(lambdacloud.DefaultKey), Endpoint: server.URL, HTTP: server.Client(),
		Agents:      driver.Agents{"amd64": digest, "arm64": strings.Repeat("f", 64)},
		LaunchEvery: -1, SeenWithin: 10 * time.Second, LookEvery: time.Millisecond,
		Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&w.cfg)
	}
	w.lambda = lambdalabs.New(w.cfg)
	return w
}

func key(text string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return text, nil }
}

func boot(cluster string, nodes int) cloud.Bootstrap {
	b := cloud.Bootstrap{Endpoint: "https://broker.example"}
	for rank := range nodes {
		b.Tokens = append(b.Tokens, fmt.Sprintf("token-%s-%d", cluster, rank))
	}
	return b
}

func spec(cluster string, nodes int) cloud.LaunchSpec {
	return cloud.LaunchSpec{Cluster: cluster, Offer: offer, Nodes: nodes, Bootstrap: boot(cluster, nodes)}
}

// failureOf returns the failure of the account that the driver maps to the error's kind.
func failureOf(err *cloud.Error) lambdacloud.Failure {
	codes := map[cloud.Kind]string{
		cloud.Capacity: "instance-operations/launch/insufficient-capacity", cloud.Quota: "global/quota-exceeded",
		cloud.Auth: "global/account-inactive", cloud.Throttled: "global/rate-limit-exceeded",
		cloud.Transient: "provider/internal-unavailable", cloud.Invalid: "global/invalid-parameters",
	}
	f := lambdacloud.FailureOf(codes[err.Kind])
	if err.RetryAfter > 0 {
		f.RetryAfter = err.RetryAfter
	}
	return f
}
