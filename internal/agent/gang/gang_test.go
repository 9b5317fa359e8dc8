package gang_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/gang"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// A node that joins a role later must get a rank after the earlier nodes, and torchrun must get the minimum and
// maximum number of nodes.
func TestJoiningNodeRanksLast(t *testing.T) {
	g := &wire.Gang{
		Name: "train", Role: "worker", Framework: "pytorch", First: 3, Least: 2, Most: 4,
		Members: []wire.Member{
			{Role: "worker", Task: "train.worker", Nodes: []string{"10.0.0.1", "10.0.0.2"}, Slots: 1, Attempt: "j.1.1"},
			{Role: "worker", First: 3, Task: "train.worker.3", Nodes: []string{"10.0.0.4"}, Slots: 1, Attempt: "j.3.2"},
		},
	}
	dir := t.TempDir()
	env, err := gang.Write(g, 0, gang.Files{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"TRADEWIND_GANG_RANK": "2", "TRADEWIND_GANG_SIZE": "3", "TRADEWIND_GANG_HEAD": "10.0.0.1",
		"TRADEWIND_HOSTS_WORKER": "10.0.0.1,10.0.0.2,10.0.0.4", "PET_NNODES": "2:4", "PET_MAX_RESTARTS": "100",
		"PET_RDZV_CONF": "is_host=false",
	} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
	hosts, err := os.ReadFile(filepath.Join(dir, "hosts"))
	if err != nil || !strings.Contains(string(hosts), "10.0.0.4 worker-3\n") {
		t.Errorf("%s, %v", hosts, err)
	}
	if own, ok := gang.OwnNode(g, 0); !ok || own.Address != "10.0.0.4" || own.Attempt != "j.3.2" {
		t.Errorf("its own node is %+v", own)
	}
	g.First, g.Least, g.Most, g.Members = 0, 0, 0, g.Members[:1]
	if env, err = gang.Write(g, 1, gang.Files{Dir: dir}); err != nil || env["PET_NNODES"] != "2" || env["PET_MAX_RESTARTS"] != "" || env["RANK"] != "1" {
		t.Errorf("a gang of fixed size: %v, %v", env, err)
	}
	if env, err = gang.Write(g, 0, gang.Files{Dir: dir}); err != nil || env["PET_RDZV_CONF"] != "is_host=true" {
		t.Errorf("the head does not host torchrun's store: %v, %v", env, err)
	}
	if _, err := gang.Write(g, 2, gang.Files{Dir: dir}); err == nil {
		t.Error("a missing rank has an environment")
	}
}
