package pool

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/cloud/local"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// agents are the agent processes on this machine. internal/cloud/local manages each as a cluster of one machine. So
// no agent is started twice, an agent that was ended is not started again by a late order, and the next process on
// the folder finds all agents.
type agents struct {
	host    *local.Host
	cloud   cloud.Cloud
	relay   string        // see Config.Relay
	changed chan struct{} // capacity 1: something has changed

	mu     sync.Mutex
	ending map[string]bool         // being ended, by name
	failed map[string]wire.PoolEnd // could not be started
	exits  map[string]wire.PoolEnd // ended by themselves while this process ran
}

// agentName returns the name of the agent of one rank of a cluster.
func agentName(cluster string, rank int) string { return cluster + "#" + strconv.Itoa(rank) }

func splitName(name string) (cluster string, rank int) {
	i := strings.LastIndexByte(name, '#')
	rank, _ = strconv.Atoi(name[i+1:]) // cannot fail: made by agentName
	return name[:max(i, 0)], rank
}

// cloudName is the name of the cloud in internal/cloud/local that manages the agents.
const cloudName = "pool"

// devicesLabel is the label of a launch that contains its device indexes.
const devicesLabel = "devices"

// openAgents takes over the agents in a folder. It returns local.ErrInUse if another process uses the folder.
func openAgents(cfg Config, dir string) (*agents, error) {
	a := &agents{
		relay: cfg.Relay, changed: make(chan struct{}, 1), ending: map[string]bool{}, failed: map[string]wire.PoolEnd{},
		exits: map[string]wire.PoolEnd{},
	}
	var err error
	a.host, err = local.New(local.Config{
		Dir: dir, Command: cfg.Command, Environ: withoutUser(cfg.Environ), Logger: cfg.Log, Grace: cfg.Grace,
		Outside: !loopback(cfg.Endpoint), Exited: a.exited, Extra: func(spec cloud.LaunchSpec) []string {
			if cfg.Capacity.Accelerators == 0 {
				return nil
			}
			return visible(spec.Labels[devicesLabel])
		},
	})
	if err != nil {
		return nil, err
	}
	a.cloud = a.host.Cloud(cloudName)
	return a, nil
}

// loopback reports whether the endpoint is a loopback address. Then the broker is on this computer, and so is every
// node of a cluster that includes this machine.
func loopback(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// withoutUser removes the variables with which an agent could act as the user. Agents have their own tokens.
func withoutUser(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return name == "TRADEWIND_TOKEN" || name == "TRADEWIND_STATE"
	})
}

// visible returns variables that restrict a task to its devices: CUDA's variable, and that of NVIDIA's container tools.
func visible(devices string) []string {
	return []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=" + devices,
		"NVIDIA_VISIBLE_DEVICES=" + cmp.Or(devices, "void")}
}

// notifyChanged wakes the goroutine that waits for changed.
func (a *agents) notifyChanged() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// exited records that an agent has ended by itself.
func (a *agents) exited(name string, code int, last string) {
	cluster, rank := splitName(name)
	a.mu.Lock()
	a.exits[name] = wire.PoolEnd{
		PoolAgent: wire.PoolAgent{Cluster: cluster, Rank: rank},
		Reason:    describeExit(code, last),
	}
	a.mu.Unlock()
	a.notifyChanged()
}

// list returns every agent that this process has not ended. The value for a name is true if the agent runs.
func (a *agents) list(ctx context.Context) (map[string]bool, error) {
	machines, err := a.cloud.Machines(ctx, "")
	if err != nil {
		return nil, err
	}
	out := make(map[string]bool, len(machines))
	for _, m := range machines {
		out[m.Cluster] = m.State != cloud.Terminated
	}
	return out, nil
}

// report returns the running agents, the ended ones, and those that could not be started.
func (a *agents) report(ctx context.Context) (running []wire.PoolAgent, ended []wire.PoolEnd, err error) {
	all, err := a.list(ctx)
	if err != nil {
		return nil, nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		cluster, rank := splitName(name)
		agent := wire.PoolAgent{Cluster: cluster, Rank: rank}
		if all[name] || a.ending[name] {
			running = append(running, agent)
			continue
		}
		exit, seen := a.exits[name]
		if !seen {
			exit = wire.PoolEnd{PoolAgent: agent, Reason: "it has ended"}
		}
		ended = append(ended, exit)
	}
	for _, name := range slices.Sorted(maps.Keys(a.failed)) {
		if _, ok := all[name]; !ok {
			ended = append(ended, a.failed[name])
		}
	}
	return running, ended, nil
}

// maxReason is the maximum size of the reason of an end, in bytes.
const maxReason = 2 << 10

// describeExit describes how an agent ended, including the end of its log.
func describeExit(code int, last string) string {
	text := "exit code " + strconv.Itoa(code)
	if code < 0 {
		text = "killed"
	}
	if last = strings.TrimSpace(last); last != "" {
		text += ": " + last[max(len(last)-maxReason, 0):]
	}
	return strings.ToValidUTF8(text, "")
}

// reconcile makes the running agents match the orders. It first ends the others. Only when these have ended it starts
// the missing ones, which may need their capacity. An agent that has ended by itself holds none: it is cleared away
// while its successor starts. settled reports whether nothing is left to do.
func (a *agents) reconcile(ctx context.Context, orders []wire.PoolOrder, tell func(Event)) (settled bool, err error) {
	all, err := a.list(ctx)
	if err != nil {
		return false, err
	}
	wanted := make(map[string]bool, len(orders))
	for _, o := range orders {
		wanted[agentName(o.Cluster, o.Rank)] = true
	}
	settled = true
	for name, running := range all {
		if !wanted[name] {
			settled = settled && !running
			a.end(name, tell)
		}
	}
	a.mu.Lock()
	for name := range a.failed {
		if !wanted[name] {
			delete(a.failed, name)
		}
	}
	a.mu.Unlock()
	if !settled {
		return false, nil
	}
	for _, o := range orders {
		if _, ok := all[agentName(o.Cluster, o.Rank)]; !ok {
			a.start(ctx, o, tell)
		}
	}
	return true, nil
}

// start starts an agent. If that fails, the next sync reports it.
func (a *agents) start(ctx context.Context, o wire.PoolOrder, tell func(Event)) {
	name := agentName(o.Cluster, o.Rank)
	a.mu.Lock()
	_, failed := a.failed[name]
	a.mu.Unlock()
	if failed || o.Token == "" { // without a token: the broker believed it was running, and the next sync corrects that
		return
	}
	devices := make([]string, len(o.Devices))
	for i, d := range o.Devices {
		devices[i] = strconv.Itoa(d)
	}
	_, err := a.cloud.Launch(ctx, cloud.LaunchSpec{
		Cluster: name, Nodes: 1, Offer: apitypes.Offer{Cloud: cloudName},
		Labels:    map[string]string{devicesLabel: strings.Join(devices, ",")},
		Bootstrap: cloud.Bootstrap{Endpoint: cmp.Or(a.relay, o.Endpoint), Tokens: []string{o.Token}},
	})
	if err == nil {
		tell(Event{Kind: AgentStarted, Job: o.Job, Cluster: o.Cluster, Hold: o.Hold})
		return
	}
	if ctx.Err() != nil {
		return // the process is ending; this is not a failure of the agent
	}
	tell(Event{Kind: AgentFailed, Job: o.Job, Cluster: o.Cluster, Err: err})
	a.mu.Lock()
	a.failed[name] = wire.PoolEnd{PoolAgent: o.PoolAgent, Reason: errorMessage(err)}
	a.mu.Unlock()
	a.notifyChanged()
}

func errorMessage(err error) string {
	var e *cloud.Error
	if errors.As(err, &e) && e.Message != "" {
		return e.Message
	}
	return err.Error()
}

// endAgain is the pause before another try to end an agent.
const endAgain = 5 * time.Second

// end ends an agent in the background.
func (a *agents) end(name string, tell func(Event)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ending[name] {
		return
	}
	a.ending[name] = true
	cluster, _ := splitName(name)
	go func() {
		err := a.cloud.Terminate(context.Background(), name)
		if err != nil {
			tell(Event{Kind: AgentFailed, Cluster: cluster, Err: err})
			time.Sleep(endAgain)
		} else {
			tell(Event{Kind: AgentEnded, Cluster: cluster})
		}
		a.mu.Lock()
		delete(a.ending, name)
		delete(a.exits, name)
		a.mu.Unlock()
		a.notifyChanged()
	}()
}

// endAll ends every agent. It returns when all have ended or ctx ends.
func (a *agents) endAll(ctx context.Context) error {
	all, err := a.list(ctx)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for name := range all {
		wg.Go(func() {
			if e := a.cloud.Terminate(ctx, name); e != nil {
				mu.Lock()
				err = errors.Join(err, e)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return err
}
