package replay_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	. "github.com/tradewind-broker/tradewind/internal/lab/replay"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

const podHeader = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time,scheduled_time\n"

// TestReplays runs testdata/*.txt. The commands nodes and pods set the files, and replay replays them.
func TestReplays(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		nodes, pods := "", ""
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "nodes":
				nodes = d.Input
				_, err := ReadNodes("nodes.csv", strings.NewReader(nodes))
				return said(err)
			case "pods":
				pods = d.Input
				if !strings.Contains(pods, "creation_time") {
					pods = podHeader + pods
				}
				_, err := ReadPods("pods.csv", strings.NewReader(pods))
				return said(err)
			case "replay":
				return replayed(t, d, nodes, pods)
			}
			t.Fatalf("unknown command %q", d.Cmd)
			return ""
		})
	}
}

func said(err error) string {
	if err != nil {
		return err.Error() + "\n"
	}
	return ""
}

func replayed(t *testing.T, d *datadriven.TestData, nodes, pods string) string {
	n, err := ReadNodes("nodes.csv", strings.NewReader(nodes))
	if err != nil {
		t.Fatal(err)
	}
	p, err := ReadPods("pods.csv", strings.NewReader(pods))
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{Every: time.Second, Weights: map[string]int{}}
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "stay":
			opt.Stay = true
		case "speed":
			opt.Speed, _ = strconv.ParseFloat(a.Vals[0], 64)
		default:
			opt.Weights[a.Key], _ = strconv.Atoi(a.Vals[0])
		}
	}
	if d.Input != "" {
		if opt.Policy, err = scheduler.ReadPolicy("policy.yaml", []byte(d.Input)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Run(t.Context(), n, p, opt)
	if err != nil {
		return said(err)
	}
	out, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out) + "\n"
}

// TestReplayPlacesEveryPodAfterArrival replays small random traces. Each pod must be placed after its arrival.
func TestReplayPlacesEveryPodAfterArrival(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var nodes []Node
		for i := range rapid.IntRange(1, 4).Draw(rt, "nodes") {
			nodes = append(nodes, Node{Name: strconv.Itoa(i), CPU: 8000, Memory: 8000, GPUs: 2, Model: "T4"})
		}
		var pods []Pod
		for i := range rapid.IntRange(1, 20).Draw(rt, "pods") {
			p := Pod{
				Name: strconv.Itoa(i), CPU: int64(1000 * rapid.IntRange(1, 8).Draw(rt, "cpu")), Class: rapid.SampledFrom([]string{"LS", "BE"}).Draw(rt, "class"),
				Created: float64(10 * i), Seconds: float64(rapid.IntRange(0, 200).Draw(rt, "seconds")),
			}
			if share := rapid.SampledFrom([]int64{0, 300, 500, 1000}).Draw(rt, "share"); share > 0 {
				p.GPUs, p.Share = 1, share
			}
			pods = append(pods, p)
		}
		r, err := Run(t.Context(), nodes, pods, Options{Every: 5 * time.Second})
		if err != nil {
			rt.Fatal(err)
		}
		if r.Placed != r.Pods || r.Unplaced != 0 {
			rt.Fatalf("%d of %d pods were placed", r.Placed, r.Pods)
		}
		if r.Wait.Mean < 0 || max(r.Peak.GPU, r.Peak.CPU, r.PeakFragmentation, r.ShareError) > 1+1e-9 {
			rt.Fatalf("%+v", r)
		}
	})
}

// TestReplayRecordedCluster replays the recorded trace, which must be in a folder next to the repository.
func TestReplayRecordedCluster(t *testing.T) {
	const folder = "../../../../shared/data/cluster-traces/alibaba-gpu-2023/"
	nodes, err := ReadNodes("nodes", unzipped(t, folder+"openb_node_list_all_node.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	pods, err := ReadPods("pods", unzipped(t, folder+"openb_pod_list_default.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes) != 1523 || len(pods) != 8152 {
		t.Fatalf("%d nodes and %d pods", len(nodes), len(pods))
	}
	r, err := Run(t.Context(), nodes, pods[:1000], Options{Every: time.Minute, Speed: 100})
	if err != nil {
		t.Fatal(err)
	}
	if r.Placed != 1000 || r.GPUs != 6212 || r.Wait.Max > 60 {
		t.Errorf("%+v", r)
	}
}

func unzipped(t *testing.T, path string) io.Reader {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Skipf("the recorded cluster is missing: %v", err)
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func FuzzReadTrace(f *testing.F) {
	f.Add("sn,cpu_milli,memory_mib,gpu,model\na,1,2,1,T4\n", podHeader+"p,1,2,1,500,T4|G2,LS,0,10,5\n")
	f.Add("", "name\n\"")
	f.Fuzz(func(t *testing.T, nodes, pods string) {
		n, err := ReadNodes("n.csv", strings.NewReader(nodes))
		var bad *BadTrace
		if err != nil {
			if !errors.As(err, &bad) || bad.Reason == "" {
				t.Fatal(err)
			}
			return
		}
		p, err := ReadPods("p.csv", strings.NewReader(pods))
		if err != nil {
			if !errors.As(err, &bad) || bad.Reason == "" {
				t.Fatal(err)
			}
			return
		}
		if len(n) > 20 || len(p) > 20 {
			return
		}
		if _, err := Run(t.Context(), n, p, Options{Every: time.Hour}); err != nil && !errors.As(err, &bad) {
			t.Fatal(err)
		}
	})
}

// TestSavedWorkIsNotRepeated reclaims a pod for another queue after two of its three hours. If the pod saves its
// work, it must end one hour and one restart after it continues. Otherwise it must start from zero.
func TestSavedWorkIsNotRepeated(t *testing.T) {
	policy, err := scheduler.ReadPolicy("policy.yaml", []byte("{actions: [allocate, reclaim], tiers: [[gang], [proportion]]}"))
	if err != nil {
		t.Fatal(err)
	}
	nodes := []Node{{Name: "n", CPU: 8000, Memory: 8000, GPUs: 2, Model: "T4"}}
	pods := []Pod{
		{Name: "a", CPU: 1000, GPUs: 1, Share: 1000, Class: "one", Seconds: 3 * 3600},
		{Name: "b", CPU: 1000, GPUs: 1, Share: 1000, Class: "one", Seconds: 3 * 3600},
		{Name: "c", CPU: 1000, GPUs: 1, Share: 1000, Class: "two", Created: 2 * 3600, Seconds: 3600},
	}
	run := func(saves time.Duration) *Report {
		r, err := Run(t.Context(), nodes, pods, Options{Policy: policy, Every: time.Minute, Saves: saves})
		if err != nil || r.Evicted != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		return r
	}
	saved, not := run(10*time.Minute), run(0)
	if saved.Hours > 4.3 || not.Hours < 5.9 {
		t.Errorf("ended after %.2f hours, and without saving after %.2f", saved.Hours, not.Hours)
	}
	if hours := saved.Lost * 7; hours > 0.25 || hours < 0.1 {
		t.Errorf("%.2f hours are lost for a restart of ten minutes", hours)
	}
	if not.Lost < 0.2 {
		t.Errorf("only %.2f of the work is lost without saving", not.Lost)
	}
}
