package gce

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	tpu "google.golang.org/api/tpu/v2"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// tpuNode is one TPU machine.
type tpuNode struct {
	record   tpu.Node
	zone     string
	bill     *Bill
	process  *emulator.Machine
	metadata *imdstest.GoogleMachine
}

func (n *tpuNode) kill() {
	if n.process != nil {
		n.process.Kill()
	}
}

// queuedResource is a request for TPUs, which it gets when some are available.
type queuedResource struct {
	record tpu.QueuedResource
	zone   string
	steps  int
	until  time.Time // zero means forever
}

func (c *Cloud) location(zone string) string {
	return "projects/" + c.cfg.Project + "/locations/" + zone
}

// tpuDone returns a finished operation.
func (c *Cloud) tpuDone(zone string) *tpu.Operation {
	return &tpu.Operation{Name: c.location(zone) + "/operations/" + strconv.FormatUint(c.number(), 10), Done: true}
}

func tpuGone(format string, args ...any) *Fault {
	return &Fault{Code: http.StatusNotFound, Reason: "notFound", Status: "NOT_FOUND",
		Message: fmt.Sprintf("Resource '"+format+"' was not found", args...)}
}

func (c *Cloud) createQueued(r *call) (any, *Fault) {
	zone, id := r.arg(1), r.URL.Query().Get("queuedResourceId")
	if f := c.zoneFault(zone); f != nil {
		return nil, f
	}
	var in tpu.QueuedResource
	if err := json.Unmarshal(r.body, &in); err != nil || in.Tpu == nil || len(in.Tpu.NodeSpec) == 0 || id == "" {
		return nil, &Fault{Code: http.StatusBadRequest, Reason: "badRequest", Status: "INVALID_ARGUMENT",
			Message: "the queued resource names no nodes"}
	}
	if c.queued[key(zone, id)] != nil {
		return nil, &Fault{Code: http.StatusConflict, Reason: "alreadyExists", Status: "ALREADY_EXISTS",
			Message: "Resource '" + c.location(zone) + "/queuedResources/" + id + "' already exists"}
	}
	for _, s := range in.Tpu.NodeSpec {
		if s.NodeId != "" && (len(in.Tpu.NodeSpec) > 1 || s.MultisliceParams != nil) {
			return nil, &Fault{Code: http.StatusBadRequest, Reason: "badRequest", Status: "INVALID_ARGUMENT",
				Message: "node_id is only for a single node: multislice requests have multislice_params"}
		}
		if s.Node == nil || s.Parent != c.location(zone) || s.Node.RuntimeVersion == "" ||
			s.Node.AcceleratorType == "" {
			return nil, &Fault{Code: http.StatusBadRequest, Reason: "badRequest", Status: "INVALID_ARGUMENT",
				Message: "a node lacks its parent, its accelerator type or its runtime version"}
		}
	}
	q := &queuedResource{record: in, zone: zone, steps: c.weather.steps}
	q.record.Name = c.location(zone) + "/queuedResources/" + id
	q.record.State = &tpu.QueuedResourceState{State: "WAITING_FOR_RESOURCES"}
	if p := in.QueueingPolicy; p != nil && p.ValidUntilDuration != "" {
		d, err := time.ParseDuration(p.ValidUntilDuration)
		if err != nil {
			return nil, &Fault{Code: http.StatusBadRequest, Reason: "badRequest", Status: "INVALID_ARGUMENT",
				Message: "validUntilDuration: " + err.Error()}
		}
		q.until = c.cfg.Now().Add(d)
	}
	c.queued[key(zone, id)] = q
	return c.tpuDone(zone), nil
}

// progressTPUs gives available TPUs to the queued requests.
func (c *Cloud) progressTPUs() {
	for _, k := range slices.Sorted(maps.Keys(c.queued)) {
		q := c.queued[k]
		if q.record.State.State != "WAITING_FOR_RESOURCES" {
			continue
		}
		if q.steps--; q.steps > 0 {
			continue
		}
		if c.weather.failed > 0 {
			c.weather.failed--
			c.failTPUs(q)
			continue
		}
		kind := q.record.Tpu.NodeSpec[0].Node.AcceleratorType
		if c.weather.dry[q.zone] || c.weather.dry[q.zone+"/"+kind] {
			if !q.until.IsZero() && !c.cfg.Now().Before(q.until) {
				c.failTPUs(q)
			}
			continue
		}
		for _, s := range q.record.Tpu.NodeSpec {
			c.createNode(q, s)
		}
		q.record.State = &tpu.QueuedResourceState{State: "ACTIVE"}
	}
}

func (c *Cloud) failTPUs(q *queuedResource) {
	why := &tpu.Status{Code: 8, Message: cmp.Or(c.weather.why, "There is no more capacity in the zone \""+q.zone+
		"\"; you can try in another zone")}
	q.record.State = &tpu.QueuedResourceState{State: "FAILED", FailedData: &tpu.FailedData{Error: why}}
}

func (c *Cloud) createNode(q *queuedResource, s *tpu.NodeSpec) {
	id := c.number()
	n := &tpuNode{record: *s.Node, zone: q.zone}
	n.record.Name, n.record.Id = c.location(q.zone)+"/nodes/"+s.NodeId, int64(id) //nolint:gosec // below 2^63
	n.record.State, n.record.QueuedResource = "READY", q.record.Name
	n.record.CreateTime = c.cfg.Now().UTC().Format(time.RFC3339Nano)
	address := "127.0.2." + strconv.FormatUint(2+id%200, 10)
	n.record.NetworkEndpoints = []*tpu.NetworkEndpoint{{IpAddress: address, Port: 8470}}
	n.bill = c.charge(&Bill{
		ID: strconv.FormatUint(id, 10), Name: s.NodeId, Zone: q.zone, Type: "TPU", Accelerator: s.Node.AcceleratorType,
		AcceleratorCount: 1, Spot: q.record.Spot != nil,
	})
	c.tpus[key(q.zone, s.NodeId)] = n
	n.metadata = &imdstest.GoogleMachine{ID: strconv.FormatUint(id, 10), Project: c.cfg.Project, Zone: q.zone,
		Name:       "t1v-n-" + strconv.FormatUint(id%0xffff, 16) + "-w-0", // not the node's name
		Attributes: s.Node.Metadata, Address: address}
	n.metadata.ServiceAccount = "100000000001-compute@developer.gserviceaccount.com" // the default: an editor
	if s.Node.ServiceAccount != nil {
		n.metadata.ServiceAccount = s.Node.ServiceAccount.Email
	}
	var err error
	if n.process, err = c.start(s.NodeId, n.metadata); err != nil {
		c.faults = append(c.faults, "boot: "+err.Error())
	}
}

func (c *Cloud) getQueued(r *call) (any, *Fault) {
	q := c.queued[key(r.arg(1), r.arg(2))]
	if q == nil {
		return nil, tpuGone("%s/queuedResources/%s", c.location(r.arg(1)), r.arg(2))
	}
	return &q.record, nil
}

func (c *Cloud) listQueued(r *call) (any, *Fault) {
	var all []*tpu.QueuedResource
	for _, k := range slices.Sorted(maps.Keys(c.queued)) {
		if zone := r.arg(1); zone == "-" || c.queued[k].zone == zone {
			all = append(all, &c.queued[k].record)
		}
	}
	part, next := page(r, all)
	return &tpu.ListQueuedResourcesResponse{QueuedResources: part, NextPageToken: next}, nil
}

func (c *Cloud) deleteQueued(r *call) (any, *Fault) {
	zone, id := r.arg(1), r.arg(2)
	q := c.queued[key(zone, id)]
	if q == nil {
		return nil, tpuGone("%s/queuedResources/%s", c.location(zone), id)
	}
	var nodes []string
	for k, n := range c.tpus {
		if n.record.QueuedResource == q.record.Name {
			nodes = append(nodes, k)
		}
	}
	if len(nodes) > 0 && r.URL.Query().Get("force") != "true" {
		return nil, &Fault{Code: http.StatusBadRequest, Reason: "failedPrecondition", Status: "FAILED_PRECONDITION",
			Message: "the queued resource has nodes"}
	}
	for _, k := range nodes {
		c.removeNode(k)
	}
	delete(c.queued, key(zone, id))
	return c.tpuDone(zone), nil
}

func (c *Cloud) removeNode(k string) {
	if n := c.tpus[k]; n != nil {
		n.kill()
		c.close(n.bill)
		delete(c.tpus, k)
	}
}

func (c *Cloud) listNodes(r *call) (any, *Fault) {
	var all []*tpu.Node
	for _, k := range slices.Sorted(maps.Keys(c.tpus)) {
		if zone := r.arg(1); zone == "-" || c.tpus[k].zone == zone {
			all = append(all, &c.tpus[k].record)
		}
	}
	part, next := page(r, all)
	return &tpu.ListNodesResponse{Nodes: part, NextPageToken: next}, nil
}

func (c *Cloud) getNode(r *call) (any, *Fault) {
	n := c.tpus[key(r.arg(1), r.arg(2))]
	if n == nil {
		return nil, tpuGone("%s/nodes/%s", c.location(r.arg(1)), r.arg(2))
	}
	return &n.record, nil
}

func (c *Cloud) deleteNode(r *call) (any, *Fault) {
	if _, f := c.getNode(r); f != nil {
		return nil, f
	}
	c.removeNode(key(r.arg(1), r.arg(2)))
	return c.tpuDone(r.arg(1)), nil
}

func (c *Cloud) getTPUOperation(r *call) (any, *Fault) {
	return &tpu.Operation{Name: strings.TrimPrefix(r.URL.Path, "/v2/"), Done: true}, nil
}
