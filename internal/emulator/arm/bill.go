package arm

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/agent/notices"
	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// Bill is a line of the bill: a machine, when it ran, and its price per hour. To is zero while it runs.
type Bill struct {
	Name, ID, Location, Size string
	Spot                     bool
	From, To                 time.Time
	USDPerHour               float64
}

// USD returns the cost, up to now if the machine still runs.
func (b Bill) USD(now time.Time) float64 {
	to := b.To
	if to.IsZero() {
		to = now
	}
	return to.Sub(b.From).Hours() * b.USDPerHour
}

// Bills returns all lines so far.
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
		b.USDPerHour = 0 // the reservation is paid whether it is used or not
	}
	s.bills = append(s.bills, b)
	v.bill = len(s.bills)
}

// end stops a machine and its bill.
func (s *Server) end(v *virtual) {
	v.running, v.stopped = false, false
	if v.bill > 0 && s.bills[v.bill-1].To.IsZero() {
		s.bills[v.bill-1].To = s.cfg.Now()
	}
	if v.process != nil {
		v.process.Kill()
	}
}

// boot starts a machine's process if Config.Dir is set.
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
	v.service = &imdstest.AzureMachine{
		VMID: v.id, Name: v.name, Address: "127.0.0.1", Region: value(v.model.Location), Zone: zone,
		Subscription: s.cfg.Subscription, Group: s.cfg.Group, Size: v.size.Name, Signer: s.cfg.Authority,
	}
	v.process, err = emulator.BootMachine(emulator.MachineConfig{
		Dir: filepath.Join(s.cfg.Dir, v.name), UserData: data, Metadata: v.service,
		Environment: func(service string) []string {
			return append([]string{notices.EnvURL + "=http://" + service}, s.cfg.Environment...)
		},
	})
	if err != nil {
		return err
	}
	process := v.process
	go func() { // a machine that powers itself off is stopped but still billed
		<-process.Exited()
		s.mu.Lock()
		defer s.mu.Unlock()
		if v.running {
			v.running, v.stopped = false, true
		}
	}()
	return nil
}

// named finds a machine by its name or unique ID.
func (s *Server) named(name string) (*virtual, error) {
	for _, v := range s.machines {
		if strings.EqualFold(v.name, name) || v.id == name {
			return v, nil
		}
	}
	return nil, fmt.Errorf("arm: no machine %s", name)
}

// Announce adds a spot machine's eviction to its Scheduled Events.
func (s *Server) Announce(name string, at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.named(name)
	if err != nil {
		return err
	}
	if !v.spot() || v.service == nil {
		return fmt.Errorf("arm: %s is not a running spot machine", name)
	}
	v.service.Preempt(at)
	return nil
}

// Evict ends a spot machine at once, and deletes it if its eviction policy says so.
func (s *Server) Evict(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.named(name)
	if err != nil {
		return err
	}
	if !v.spot() {
		return fmt.Errorf("arm: %s is not a spot machine", name)
	}
	s.end(v)
	s.forget(v, s.takeStrand())
	return nil
}

// Stop powers a machine off from inside.
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

// Age makes all machines, as the API lists them, older.
func (s *Server) Age(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.machines {
		v.made = v.made.Add(-by)
	}
}

// Console returns the path of the file to which a machine's boot script and agent write.
func (s *Server) Console(name string) string { return filepath.Join(s.cfg.Dir, name, "console.log") }

// Close kills all machines.
func (s *Server) Close() {
	s.mu.Lock()
	var all []*emulator.Machine
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
