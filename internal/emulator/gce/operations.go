package gce

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	compute "google.golang.org/api/compute/v1"
)

// operation is an asynchronous operation.
type operation struct {
	record compute.Operation
	steps  int // number of requests until it is done
	finish func()
}

// begin starts an operation in a zone, or a global one.
func (c *Cloud) begin(kind, zone, requestID string) *operation {
	n := c.number()
	o := &operation{steps: c.weather.steps, record: compute.Operation{
		Kind: "compute#operation", Id: n, Name: fmt.Sprintf("operation-%d", n), OperationType: kind,
		Status: "RUNNING", ClientOperationId: requestID, InsertTime: c.now(), StartTime: c.now(),
		User: "broker@" + c.cfg.Project + ".iam.gserviceaccount.com",
	}}
	if zone != "" {
		o.record.Zone = c.link("zones/%s", zone)
	}
	c.ops[o.record.Name] = o
	if requestID != "" {
		c.requests[requestID] = o
	}
	return o
}

func (o *operation) fail(status int64, code, message string) {
	o.record.HttpErrorStatusCode, o.record.HttpErrorMessage = status, http.StatusText(int(status))
	o.record.Error = &compute.OperationError{Errors: []*compute.OperationErrorErrors{{Code: code, Message: message}}}
}

// end completes an operation now.
func (c *Cloud) end(o *operation) {
	if o.record.Status == "DONE" {
		return
	}
	o.record.Status, o.record.Progress, o.record.EndTime = "DONE", 100, c.now()
	if o.finish != nil {
		o.finish()
	}
}

// progress advances every operation by one step.
func (c *Cloud) progress() {
	for _, name := range slices.Sorted(maps.Keys(c.ops)) {
		if o := c.ops[name]; o.record.Status != "DONE" {
			if o.steps--; o.steps <= 0 {
				c.end(o)
			}
		}
	}
	c.progressTPUs()
	c.progressSpark()
}

func (c *Cloud) getOperation(r *call) (any, *Fault) {
	name := r.arg(len(r.args) - 1)
	o := c.ops[name]
	if o == nil {
		return nil, notFound("projects/%s/operations/%s", c.cfg.Project, name)
	}
	return &o.record, nil
}

// waitOperation answers when an operation is done. That is at once, because nothing takes time here, unless EndWaits
// is set.
func (c *Cloud) waitOperation(r *call) (any, *Fault) {
	o := c.ops[r.arg(len(r.args)-1)]
	if o != nil && c.weather.early > 0 {
		c.weather.early--
	} else if o != nil {
		c.end(o)
	}
	return c.getOperation(r)
}

func (c *Cloud) operations(zone, expr string) ([]*compute.Operation, *Fault) {
	var all []*compute.Operation
	for _, name := range slices.Sorted(maps.Keys(c.ops)) {
		if o := c.ops[name]; zone == "" || base(o.record.Zone) == zone {
			all = append(all, &o.record)
		}
	}
	return filter(all, expr)
}

func (c *Cloud) listOperations(r *call) (any, *Fault) {
	all, f := c.operations(r.arg(1), r.URL.Query().Get("filter"))
	if f != nil {
		return nil, f
	}
	// Google searches a part of a zone's operations at a time, so the first page may have no matches.
	if q := r.URL.Query(); q.Get("filter") != "" && q.Get("pageToken") == "" {
		return &compute.OperationList{Kind: "compute#operationList", NextPageToken: "0"}, nil
	}
	part, next := page(r, all)
	return &compute.OperationList{Kind: "compute#operationList", Items: part, NextPageToken: next}, nil
}

func (c *Cloud) aggregateOperations(r *call) (any, *Fault) {
	all, f := c.operations("", r.URL.Query().Get("filter"))
	if f != nil {
		return nil, f
	}
	part, next := page(r, all)
	out := &compute.OperationAggregatedList{
		Kind: "compute#operationAggregatedList", Items: map[string]compute.OperationsScopedList{}, NextPageToken: next,
	}
	for _, o := range part {
		scope := "global"
		if o.Zone != "" {
			scope = "zones/" + base(o.Zone)
		}
		out.Items[scope] = compute.OperationsScopedList{Operations: append(out.Items[scope].Operations, o)}
	}
	return out, nil
}
