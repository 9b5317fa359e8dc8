package local_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/cloud/local"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// benchHost returns a host whose broker has work ready for every node.
func benchHost(b *testing.B) (*agenttest.Broker, cloud.Cloud) {
	b.Helper()
	broker := agenttest.New(b)
	dir := b.TempDir()
	host, err := local.New(local.Config{Dir: dir, Command: []string{os.Args[0], marker(dir)}, Environ: testEnviron()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { host.Close() })
	return broker, host.Cloud("aws")
}

// BenchmarkMachineLife measures a machine from launch to terminate, with one task in between.
func BenchmarkMachineLife(b *testing.B) {
	for name, run := range map[string]string{"stand-in": "", "shell": "true"} {
		b.Run(name, func(b *testing.B) {
			broker, aws := benchHost(b)
			store := "file://" + b.TempDir()
			i := 0
			for b.Loop() {
				i++
				n := agenttest.Node{Cluster: fmt.Sprintf("c%d", i)}
				broker.Run(n, &wire.Assignment{Attempt: n.Cluster, Run: run, Nodes: []string{"127.0.0.1"}, Store: store, Prefix: n.Cluster})
				_, err := aws.Launch(context.Background(), cloud.LaunchSpec{
					Cluster: n.Cluster, Offer: onDemand, Nodes: 1, Bootstrap: cloud.Bootstrap{Endpoint: broker.URL(), Tokens: broker.Tokens(n.Cluster, 1)},
				})
				if err != nil {
					b.Fatal(err)
				}
				if r := broker.Result(n, n.Cluster); r.Event != wire.Succeeded {
					b.Fatalf("%+v", r)
				}
				if err := aws.Terminate(context.Background(), n.Cluster); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
