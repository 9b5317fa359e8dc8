package local_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/local"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// launcherEnv makes the test binary a separate broker process, which the test kills.
const launcherEnv = "TRADEWIND_TEST_LAUNCHER"

// orders is the list of clusters for that process.
type orders struct {
	Dir   string
	Specs []cloud.LaunchSpec
}

// launcher launches every cluster and terminates every second one, as fast as possible, until it is killed.
func launcher() {
	var o orders
	if err := json.Unmarshal([]byte(os.Getenv(launcherEnv)), &o); err != nil {
		os.Exit(1)
	}
	os.Unsetenv(launcherEnv)
	host, err := local.New(local.Config{Dir: o.Dir, Command: []string{os.Args[0], marker(o.Dir)}, Environ: testEnviron()})
	if err != nil {
		os.Exit(1)
	}
	fmt.Println("ready")
	for i, spec := range o.Specs {
		launch := func() {
			if _, err := host.Cloud("aws").Launch(noContext, spec); err != nil {
				os.Exit(2)
			}
		}
		switch i % 3 {
		case 0:
			launch()
		case 1:
			launch()
			if host.Cloud("aws").Terminate(noContext, spec.Cluster) != nil {
				os.Exit(3)
			}
		case 2:
			go launch()
		}
	}
	select {}
}

func TestKilledBrokerLosesNoMachine(t *testing.T) {
	w := newWorld(t, local.Config{})
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // for times, not secrets
	for round := range 12 {
		w.host.Close()
		o := orders{Dir: w.cfg.Dir}
		for i := range 12 {
			o.Specs = append(o.Specs, w.spec(fmt.Sprintf("r%d-c%d", round, i), onDemand, 1+i%2))
		}
		script, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		broker := exec.Command(os.Args[0])
		broker.Env = append(os.Environ(), launcherEnv+"="+string(script))
		out, err := broker.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := broker.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 16)); err != nil {
			t.Fatalf("the broker did not start: %v", err)
		}
		time.Sleep(time.Duration(random.Int64N(int64(80 * time.Millisecond)))) // a random time
		if err := broker.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = broker.Wait()

		w.open()
		machines, err := w.aws.Machines(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if n := w.processes(); n > len(machines) {
			t.Errorf("round %d: %d agents run, %d machines are listed", round, n, len(machines))
		}
		for _, spec := range o.Specs[:2] { // a cluster whose launch has begun can be completed, or was terminated
			if got, err := w.aws.Launch(t.Context(), spec); err == nil && len(got) != spec.Nodes || err != nil && cloud.KindOf(err) != cloud.Invalid {
				t.Errorf("round %d: launched again: %v, %v", round, got, err)
			}
		}
		w.terminateAll()
		if n := w.processes(); n != 0 {
			t.Fatalf("round %d: %d agents left over", round, n)
		}
	}
}
