package dag

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// TimeEstimate is the expected run time of a task by machine: by accelerator, by instance type, by
// the ratings of the accelerators, or Default for all other machines. If neither Default nor FLOPs
// is set, the time is unknown, and planning assumes one hour (paper, section Optimizer).
type TimeEstimate struct {
	// Default is the time on a machine whose vCPUs have the speed Speed. It is divided by the relative speed of other
	// machines, unless they have accelerators.
	Default time.Duration            `json:"default,omitempty"`
	On      map[string]time.Duration `json:"on,omitempty"` // canonical accelerator ("V100", "V100:4") or instance type
	// FLOPs is the number of floating-point operations of the whole task; 0 is unknown. The time is
	// FLOPs divided by the ratings of all accelerators of the task and by Efficiency (paper, section
	// Application API).
	FLOPs float64 `json:"flops,omitempty"`
	// Efficiency is the share of their rating that the accelerators reach, from above 0 to 1; 0 is 1.
	Efficiency float64 `json:"efficiency,omitempty"`
	// Serial is the share of the time on one machine that more machines do not shorten. If it is set,
	// the other times are those on one machine, and n machines take Serial + (1 − Serial)/n of them
	// (Amdahl's law). If it is nil and the task has a fixed number of machines, the times are those on
	// these machines. If it is nil and the plan chooses the number, or the time follows from FLOPs, it
	// counts as 0.
	Serial *float64 `json:"serial,omitempty"`
	// ByNodes has times by the number of machines and replaces Default. The task cannot run on other
	// numbers of machines.
	ByNodes map[int]time.Duration `json:"byNodes,omitempty"`
	// Only means that only machines for which On or a rating has a time fit. The others do not get
	// Default.
	Only bool `json:"only,omitempty"`
	// Speed is that of the task's reference machine; 0 is 1, the speed of m6i.xlarge.
	Speed float64 `json:"speed,omitempty"`
}

// DefaultTime is the assumed run time of a task without an estimate.
const DefaultTime = time.Hour

// Unknown reports whether the file states nothing about the run time.
func (e *TimeEstimate) Unknown() bool {
	return e.Default == 0 && len(e.On) == 0 && e.FLOPs == 0 && len(e.ByNodes) == 0
}

// TimeOn returns the estimate for a number of machines of one offer. If nodes is 0, it is the
// task's number. For the other arguments see [TimeEstimate.For].
func (t *Task) TimeOn(instanceType, accelerator string, count, speed float64, nodes int) time.Duration {
	e := t.Time
	if t.MaxNodes > 0 && e.Serial == nil {
		e.Serial = new(float64)
	}
	return e.For(instanceType, accelerator, count, speed, cmp.Or(nodes, t.Nodes))
}

// For returns the estimate for a number of machines of one offer. It uses the most specific time:
// that of the instance type, of the accelerator with its count, of the accelerator, by the rating
// of the accelerators, or the default. count is the number of accelerators of one machine. speed is
// that of the offer's vCPUs; 0 is 1.
func (e *TimeEstimate) For(instanceType, accelerator string, count, speed float64, nodes int) time.Duration {
	if d, ok := e.named(instanceType, accelerator, count); ok {
		return timeOf(float64(d) * e.Scale(nodes))
	}
	if rating := e.rating(accelerator, count); rating > 0 {
		if e.Serial == nil {
			rating *= float64(max(nodes, 1))
		}
		seconds := e.FLOPs / rating / cmp.Or(e.Efficiency, 1)
		return timeOf(seconds * float64(time.Second) * e.Scale(nodes))
	}
	d, scale := cmp.Or(e.Default, DefaultTime), e.Scale(nodes)
	if known, ok := e.ByNodes[nodes]; ok {
		d, scale = known, 1
	}
	if at := cmp.Or(e.Speed, 1); accelerator == "" && speed > 0 && speed != at {
		scale *= at / speed
	}
	return timeOf(float64(d) * scale)
}

// Scale is the time on a number of machines, relative to the times of the estimate.
func (e *TimeEstimate) Scale(nodes int) float64 {
	if e.Serial == nil {
		return 1
	}
	return *e.Serial + (1-*e.Serial)/float64(max(nodes, 1))
}

// Fits reports whether the estimate has a time for an offer. With Only, or with FLOPs and no
// default, it has none for machines that On does not name and whose accelerators have no known
// rating.
func (e *TimeEstimate) Fits(instanceType, accelerator string, count float64) bool {
	if e.FLOPs == 0 && !e.Only || e.Default > 0 || e.rating(accelerator, count) > 0 {
		return true
	}
	_, ok := e.named(instanceType, accelerator, count)
	return ok
}

// ByRating reports whether the time on an offer follows from the ratings of its accelerators.
func (e *TimeEstimate) ByRating(instanceType, accelerator string, count float64) bool {
	_, named := e.named(instanceType, accelerator, count)
	return !named && e.rating(accelerator, count) > 0
}

// MostNodes is the largest number of machines that the task may run on.
func (t *Task) MostNodes() int { return max(t.Nodes, t.MaxNodes, 1) }

// NodeCounts returns the numbers of machines that a plan may choose among.
func (t *Task) NodeCounts() (counts []int) {
	for n := max(t.Nodes, 1); n <= t.MostNodes(); n++ {
		if _, known := t.Time.ByNodes[n]; known || len(t.Time.ByNodes) == 0 {
			counts = append(counts, n)
		}
	}
	return counts
}

// named returns the time that the estimate has for the name of a machine type or of an accelerator.
func (e *TimeEstimate) named(instanceType, accelerator string, count float64) (d time.Duration, ok bool) {
	if d, ok = e.On[instanceType]; ok && instanceType != "" {
		return d, true
	}
	if accelerator == "" {
		return 0, false
	}
	if d, ok = e.On[AcceleratorKey(accelerator, count)]; !ok {
		d, ok = e.On[accelerator]
	}
	return d, ok
}

// teraFLOP is the unit of accel.TFLOPS, in operations.
const teraFLOP = 1e12

// rating is the half-precision rating of a machine's accelerators in operations per second; 0 if it is unknown or does
// not count.
func (e *TimeEstimate) rating(accelerator string, count float64) float64 {
	if e.FLOPs == 0 {
		return 0
	}
	return count * accel.TFLOPS(accelerator) * teraFLOP
}

// timeOf limits a time in nanoseconds to the durations that a plan can have.
func timeOf(nanoseconds float64) time.Duration {
	return time.Duration(max(1, min(nanoseconds, float64(MaxDuration))))
}

// AcceleratorKey returns an accelerator with its count: "V100:4", or "A10:0.5".
func AcceleratorKey(name string, count float64) string {
	return name + ":" + strconv.FormatFloat(count, 'f', -1, 64)
}

// CheckNodes returns an error if the plan should choose the task's number of machines, but the task
// cannot use more.
func (t *Task) CheckNodes() error {
	why := ""
	switch {
	case t.MaxNodes == 0:
		return nil
	case t.MaxNodes <= t.Nodes || t.MaxNodes > MaxNodes:
		return fault.New(fmt.Sprintf("%d to %d is not a range of numbers of machines", t.Nodes, t.MaxNodes), "")
	case t.Gang != "" || t.Joins != "":
		why = "the machines of a gang have fixed places in it"
	case t.Service != nil:
		why = "a service has replicas"
	case t.Spark != nil:
		return fault.New("a Spark task cannot have a range of nodes", "write resources: {executors: 2-10}")
	case t.StandIn():
		why = "a recorded run time was measured on a fixed number"
	default:
		return nil
	}
	return fault.New("cannot be a range: "+why, "write one number")
}

// CheckByNodes returns an error if ByNodes has no time for any number of machines that the task may
// have, or is combined with other times.
func (t *Task) CheckByNodes() error {
	e := &t.Time
	switch {
	case len(e.ByNodes) == 0:
		return nil
	case e.Default > 0 || len(e.On) > 0 || e.FLOPs > 0 || e.Serial != nil || e.Only:
		return fault.New("cannot be combined with other times", "remove one of them")
	case len(t.NodeCounts()) == 0 && t.MaxNodes > 0:
		return fault.New(fmt.Sprintf("has no time for %d to %d machines", t.Nodes, t.MaxNodes), "add one")
	case len(t.NodeCounts()) == 0:
		return fault.New(fmt.Sprintf("has no time for %d nodes", max(t.Nodes, 1)),
			"add this number of nodes, or write a range of nodes")
	}
	return nil
}

// validate checks the estimate on its own. The fields in its errors are relative to it.
func (e *TimeEstimate) validate() error {
	if err := cmp.Or(
		ifSet(e.Default, checkDuration),
		fault.Within(jobtext.FLOPsKey, ifSet(e.FLOPs, jobtext.CheckFLOPs)),
		fault.Within(jobtext.EfficiencyKey, ifSet(e.Efficiency, jobtext.CheckEfficiency)),
		fault.Within(jobtext.EfficiencyKey, e.CheckEfficiency()),
		fault.Within(jobtext.SerialKey, ifSet(e.Serial, jobtext.CheckSerial)),
		fault.Within(jobtext.DefaultTimeKey, e.CheckOnly()),
	); err != nil {
		return err
	}
	for _, n := range slices.Sorted(maps.Keys(e.ByNodes)) {
		if err := cmp.Or(jobtext.CheckCount(n, 1, MaxNodes), checkDuration(e.ByNodes[n])); err != nil {
			return fault.Within(jobtext.NodesKey, fault.WithinKey(strconv.Itoa(n), err))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(e.On)) {
		err := checkDuration(e.On[key])
		if canonical, keyErr := TimeKey(key); keyErr != nil {
			err = keyErr
		} else if canonical != key || strings.EqualFold(key, jobtext.DefaultTimeKey) {
			err = fault.New(fault.Quote(key)+" is not the canonical name of an accelerator or instance type",
				"write "+fault.Quote(canonical))
		}
		if err != nil {
			return fault.WithinKey(key, err)
		}
	}
	return nil
}

// CheckEfficiency returns an error if the estimate has an efficiency, but no operations.
func (e *TimeEstimate) CheckEfficiency() error {
	if e.Efficiency != 0 && e.FLOPs == 0 {
		return fault.New("is the efficiency of flops, which is missing", "add flops, such as flops: 3e18")
	}
	return nil
}

// CheckOnly returns an error if no machine fits the estimate, or if it has a default that it does not use.
func (e *TimeEstimate) CheckOnly() error {
	switch {
	case !e.Only:
		return nil
	case e.Default > 0:
		return fault.New("is both a time and none", "write one of them")
	case len(e.On) == 0 && e.FLOPs == 0:
		return fault.New("is none, and no machine has a time", "add times, such as V100: 2h")
	}
	return nil
}

// CheckFLOPs returns an error if the task's estimate counts operations, but no machine that it requests can have
// accelerators, and it has no other time.
func (t *Task) CheckFLOPs() error {
	e := &t.Time
	accelerated := func(r Resources) bool { return r.Accelerator != "" || r.InstanceType != "" }
	if e.FLOPs == 0 || e.Default > 0 || len(e.On) > 0 || slices.ContainsFunc(t.Resources, accelerated) {
		return nil
	}
	return fault.New("needs accelerators, but the task requests none",
		"write resources: {accelerators: V100:1}, or a default time")
}
