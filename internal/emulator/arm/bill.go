package arm

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/emulator/machine"
	"github.com/tradewind-broker/tradewind/pkg/agent/bootstrap/azuretest"
	"github.com/tradewind-broker/tradewind/pkg/agent/notices"
)

// Bill is a line of the bill: a machine that ran from a time to a time, at a price per hour. To is zero while it runs.
type Bill struct {
	Name, ID, Location, Size string
	Spot                     bool
	From, To                 time.Time
	USDPerHour               float64
}

// USD is what it cost, until now where it still runs.
func (b Bill) USD(now time.Time) float64 {
	to := b.To
	if to.IsZero() {
		to = now
	}
	return to.Sub(b.From).Hours() * b.USDPerHour
}

// Bills are all lines so far.
func (s *Server) Bills() []Bill {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bills)
}

// open begins a machine's line.
func (s *Server) open(v *virtual) {
	b := Bill{
		Name:       v.name,
		ID:         v.id,
		Location:   value(v.model.Location),
		Size:       v.size.Name,
		Spot:       v.spot(),
		From:       s.cfg.Now(),
		USDPerHour: v.size.USD,
	}
	if b.Spot {
		b.USDPerHour = v.size.SpotUSD
	}
	if v.reservation != nil {
		b.USDPerHour = 0 // it is paid for whether it is used or not
	}
	s.bills = append(s.bills, b)
	v.bill = len(s.bills)
}

// end stops a machine, and what it costs.
func (s *Server) end(v *virtual) {
	v.running, v.stopped = false, false
	if v.bill > 0 && s.bills[v.bill-1].To.IsZero() {
		s.bills[v.bill-1].To = s.cfg.Now()
	}
	if v.process != nil {
		v.process.Kill()
	}
}

// boot starts the process that a machine is, where it is to be one.
func (s *Server) boot(v *virtual) error {
	if s.cfg.Dir == "" {
		return nil
	}
	data, err := customData(v)
	if err != nil {
		return err
	}
	zone := ""
	if len(v.model.Zones) > 0 {
		zone = *v.model.Zones[0]
	}
	v.service = &azuretest.Machine{
		VMID: v.id, Name: v.name, Address: "127.0.0.1", Region: value(v.model.Location), Zone: zone,
		Subscription: s.cfg.Subscription, Group: s.cfg.Group, Size: v.size.Name, Signer: s.cfg.Authority,
	}
	v.process, err = machine.Boot(machine.Config{
		Dir: filepath.Join(s.cfg.Dir, v.name), UserData: data, Metadata: v.service,
		Environment: func(service string) []string {
			return append([]string{notices.EnvURL + "=http://" + service}, s.cfg.Environment...)
		},
	})
	if err != nil {
		return err
	}
	process := v.process
	go func() { // a machine that powers itself off is stopped, and billed all the same
		<-process.Exited()
		s.mu.Lock()
		defer s.mu.Unlock()
		if v.running {
			v.running, v.stopped = false, true
		}
	}()
	return nil
}

// named finds a machine by its name, or by its unique ID.
func (s *Server) named(name string) (*virtual, error) {
	for _, v := range s.machines {
		if strings.EqualFold(v.name, name) || v.id == name {
			return v, nil
		}
	}
	return nil, fmt.Errorf("arm: no machine %s", name)
}

// Announce has a spot machine's Scheduled Events say that it will be evicted.
func (s *Server) Announce(name string, at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.named(name)
	if err != nil {
		return err
	}
	if !v.spot() || v.service == nil {
		return fmt.Errorf("arm: %s is no spot machine that runs", name)
	}
	v.service.Preempt(at)
	return nil
}

// Evict takes a spot machine away at once, and deletes it as its eviction policy says.
func (s *Server) Evict(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.named(name)
	if err != nil {
		return err
	}
	if !v.spot() {
		return fmt.Errorf("arm: %s is no spot machine", name)
	}
	s.end(v)
	s.forget(v, s.takeStrand())
	return nil
}

// Stop powers a machine off from within.
func (s *Server) Stop(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.named(name)
	if err != nil {
		return err
	}
	v.running, v.stopped = false, true
	if v.process != nil {
		v.process.Kill()
	}
	return nil
}

// Console is the file that a machine's boot and agent write to.
func (s *Server) Console(name string) string { return filepath.Join(s.cfg.Dir, name, "console.log") }

// Close kills all machines.
func (s *Server) Close() {
	s.mu.Lock()
	var all []*machine.Machine
	for _, v := range s.machines {
		if v.process != nil {
			v.process.Kill()
			all = append(all, v.process)
		}
	}
	s.mu.Unlock()
	for _, m := range all {
		<-m.Exited()
	}
}
