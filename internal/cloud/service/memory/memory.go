// Package memory is a service that runs nothing, in memory: for tests of the broker, and as the smallest complete
// implementation of service.Service.
package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
)

// Scheme is the scheme of the service's store.
const Scheme = "s3"

// Outcome is what a run does.
type Outcome struct {
	State   service.RunState // Succeeded or Failed; empty means that it runs until it is stopped
	Message string
	Log     service.Log
}

// Account is an account at the cloud. Its time advances with Step.
type Account struct {
	// Service is the name of the service.
	Service string
	// Run decides what an application does.
	Run func(service.App) Outcome
	Now func() time.Time // nil means time.Now

	mu      sync.Mutex
	places  []*place
	serial  int
	runs    int
	refuse  map[Call][]*cloud.Error
	late    []*cloud.Error
	losses  map[Call]int
	stopped map[string]bool // deployment/name of places that were ended before they were created
}

// Call is a call that can be made to fail.
type Call string

// The calls.
const (
	Create Call = "create"
	Submit Call = "submit"
	End    Call = "end"
)

type place struct {
	service.Place
	deployment string
	fails      *cloud.Error // ends it when it would be ready
	runs       []*run
}

type run struct {
	service.Run
	app service.App
	log service.Log
}

// Deployment returns the service with only the places of a deployment.
func (a *Account) Deployment(name string) service.Service { return &deployment{a, name} }

// Refuse makes the next call fail.
func (a *Account) Refuse(call Call, err *cloud.Error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refuse == nil {
		a.refuse = map[Call][]*cloud.Error{}
	}
	a.refuse[call] = append(a.refuse[call], err)
}

// FailLate makes the next place end with err before it is ready.
func (a *Account) FailLate(err *cloud.Error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.late = append(a.late, err)
}

// Lose makes the next call succeed and lose its answer.
func (a *Account) Lose(call Call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.losses == nil {
		a.losses = map[Call]int{}
	}
	a.losses[call]++
}

// Kill ends the places with this name, and loses their runs.
func (a *Account) Kill(name string, why *cloud.Error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.places {
		if p.Name == name {
			p.end(why, service.Lost)
		}
	}
}

// Left returns how many places have not ended.
func (a *Account) Left() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.places {
		if p.State != service.Ended {
			n++
		}
	}
	return n
}

// Made returns how many places were made.
func (a *Account) Made() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.places)
}

// Runs returns how many runs were accepted.
func (a *Account) Runs() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.runs
}

// Step advances time: places become ready, or end, and runs start or end. A place runs one application at a time.
func (a *Account) Step() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.places {
		switch {
		case p.State == service.Starting && p.fails != nil:
			p.end(p.fails, service.Lost)
		case p.State == service.Starting:
			p.State = service.Ready
		case p.State == service.Ready:
			p.step(a.Run)
		}
	}
}

func (p *place) step(outcome func(service.App) Outcome) {
	for _, r := range p.runs {
		if r.State == service.Pending {
			r.State = service.Running
			return
		}
		if r.State != service.Running {
			continue
		}
		if o := outcome(r.app); o.State != "" {
			r.State, r.Message, r.log = o.State, o.Message, o.Log
		}
		return
	}
}

func (p *place) end(why *cloud.Error, as service.RunState) {
	if p.State == service.Ended {
		return
	}
	p.State, p.Why = service.Ended, why
	for _, r := range p.runs {
		if !r.State.Final() {
			r.State = as
		}
	}
}

// begin begins a call. It fails if the call is to be refused. The caller holds the lock, and calls answer at the end.
func (a *Account) begin(ctx context.Context, call Call) error {
	if err := ctx.Err(); err != nil {
		return &cloud.Error{Kind: cloud.Transient, Cloud: a.Service, Message: err.Error(), Err: err}
	}
	if next := a.refuse[call]; len(next) > 0 {
		a.refuse[call] = next[1:]
		return next[0]
	}
	return nil
}

func (a *Account) answer(call Call) error {
	if a.losses[call] > 0 {
		a.losses[call]--
		return cloud.Errorf(a.Service, cloud.Transient, "", "the answer was lost")
	}
	return nil
}

func (a *Account) id(kind string) string {
	a.serial++
	return fmt.Sprintf("%s-%d", kind, a.serial)
}

type deployment struct {
	*Account
	name string
}

// Name implements service.Service.
func (d *deployment) Name() string { return d.Service }

func (d *deployment) find(name string) *place {
	i := slices.IndexFunc(d.places, func(p *place) bool { return p.deployment == d.name && p.Name == name })
	if i < 0 {
		return nil
	}
	return d.places[i]
}

func (p *place) find(name string) *run {
	i := slices.IndexFunc(p.runs, func(r *run) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return p.runs[i]
}

// Create implements service.Service.
func (d *deployment) Create(ctx context.Context, spec service.Spec) (service.Place, error) {
	if err := spec.Check(d.Service, Scheme); err != nil {
		return service.Place{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(ctx, Create); err != nil {
		return service.Place{}, err
	}
	p := d.find(spec.Name)
	if d.stopped[d.name+"/"+spec.Name] || p != nil && p.State == service.Ended {
		return service.Place{}, service.ErrorEnded(d.Service, spec.Name)
	}
	if p == nil {
		now := time.Now
		if d.Now != nil {
			now = d.Now
		}
		p = &place{deployment: d.name, Place: service.Place{Name: spec.Name, Region: spec.Region, ID: d.id("place"),
			State: service.Starting, Created: now(), Release: spec.Release, Logs: spec.Logs}}
		if len(d.late) > 0 {
			p.fails, d.late = d.late[0], d.late[1:]
		}
		d.places = append(d.places, p)
	}
	return p.Place, d.answer(Create)
}

// Submit implements service.Service.
func (d *deployment) Submit(ctx context.Context, at service.Place, app service.App) (service.Run, error) {
	if err := app.Check(d.Service, Scheme); err != nil {
		return service.Run{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(ctx, Submit); err != nil {
		return service.Run{}, err
	}
	p := d.find(at.Name)
	if p == nil {
		return service.Run{}, service.ErrorEnded(d.Service, at.Name)
	}
	r := p.find(app.Name)
	switch {
	case r == nil && p.State == service.Ended:
		return service.Run{}, service.ErrorEnded(d.Service, at.Name)
	case r == nil:
		r = &run{app: app, Run: service.Run{Name: app.Name, ID: d.id("run"), State: service.Pending}}
		p.runs = append(p.runs, r)
		d.runs++
	}
	return r.Run, d.answer(Submit)
}

// Watch implements service.Service.
func (d *deployment) Watch(ctx context.Context, at service.Place, r service.Run) (service.Place, service.Run, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(ctx, ""); err != nil {
		return at, r, err
	}
	p := cmp.Or(d.find(at.Name), &place{Place: service.Place{Name: at.Name, Region: at.Region, State: service.Ended}})
	if r.Name == "" {
		return p.Place, r, nil
	}
	found := p.find(r.Name)
	switch {
	case found != nil:
		return p.Place, found.Run, nil
	case p.State == service.Ended:
		r.State = service.Lost
		return p.Place, r, nil
	}
	return p.Place, r, service.ErrorNoRun(d.Service, r.Name)
}

// Log implements service.Service.
func (d *deployment) Log(ctx context.Context, at service.Place, r service.Run) (service.Log, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(ctx, ""); err != nil {
		return service.Log{}, err
	}
	if p := d.find(at.Name); p != nil {
		if found := p.find(r.Name); found != nil {
			return found.log, nil
		}
	}
	return service.Log{}, nil
}

// Cancel implements service.Service.
func (d *deployment) Cancel(ctx context.Context, at service.Place, r service.Run) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(ctx, ""); err != nil {
		return err
	}
	if p := d.find(at.Name); p != nil {
		if found := p.find(r.Name); found != nil && !found.State.Final() {
			found.State = service.Cancelled
		}
	}
	return nil
}

// End implements service.Service.
func (d *deployment) End(ctx context.Context, at service.Place) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(ctx, End); err != nil {
		return err
	}
	if p := d.find(at.Name); p != nil {
		p.end(nil, service.Cancelled)
	} else {
		if d.stopped == nil {
			d.stopped = map[string]bool{}
		}
		d.stopped[d.name+"/"+at.Name] = true
	}
	return d.answer(End)
}

// Places implements service.Service.
func (d *deployment) Places(ctx context.Context) (all []service.Place, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(ctx, ""); err != nil {
		return nil, err
	}
	for _, p := range d.places {
		if p.deployment == d.name {
			all = append(all, p.Place)
		}
	}
	return all, nil
}
