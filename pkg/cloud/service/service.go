// Package service is the port through which the broker runs Spark applications on managed services: EMR, EMR
// Serverless, Dataproc and Dataproc Serverless. A service has places (a cluster; an application of a serverless
// service; nothing but a name for batches), and a place runs applications.
//
// The broker chooses the name of each place and run, and every call is idempotent by these names: a repeated call, also
// after a crash or a lost answer, buys nothing twice. Errors are *cloud.Error, with the kinds of machines.
//
// Package servicetest is the conformance suite. This package does not know jobs, plans or prices.
package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/names"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Codes of the drivers' own failures; all other codes come from the cloud.
const (
	CodeBadSpec = "InvalidPlace" // no service could make or run it
	CodeEnded   = "PlaceEnded"   // the place has ended, or its name was used before
	CodeNoRun   = "NoSuchRun"    // the place has no such run
)

// MaxName is the maximum length of the name of a place or run. With a prefix it fits into the name of a cluster.
const MaxName = 39

// MaxLog is the maximum size in bytes of each part of a log that Log returns.
const MaxLog = 4 << 20

// Executors are the executors of an application.
type Executors struct {
	Min, Max int
	// VCPUs and MemoryGiB are the size of each, and of the driver, on a serverless service. 0 is the service's default.
	VCPUs, MemoryGiB int
}

// Spec describes a place.
type Spec struct {
	Name    string // 1 to MaxName characters: a-z, 0-9 and -, a letter first; never used for another place
	Region  string
	Release string // as in dag.SparkRelease: 7.5.0 of EMR, 2.2 of Dataproc
	// InstanceType, Spot and DiskGiB are for clusters: their machines, whether all but one executor are spot machines,
	// and the root disk; 0 is the service's default.
	InstanceType string
	Spot         bool
	DiskGiB      int
	Executors    Executors
	// Logs is the prefix (s3://bucket/prefix/) below which the service writes the logs of the place's applications.
	Logs string
	// Idle is the time for which the place lives without an application, in case the broker does not end it. Life is
	// the maximum life of the place, if the service supports that. 0 means none.
	Idle, Life time.Duration
	Labels     map[string]string // job, queue
}

// App is one run of an application in a place.
type App struct {
	Name string // as of Spec, unique in its place
	// Main, PyFiles and Jars are URIs of the place's store.
	Main          string
	Class         string
	Args          []string
	PyFiles, Jars []string
	Packages      []string // of Maven Central
	Conf          map[string]string
	Executors     Executors
	// Limit is the maximum run time, if the service can end the run then; 0 means no limit.
	Limit  time.Duration
	Labels map[string]string // task, attempt
}

// State of a place.
type State string

// The states of a place. An ended place may disappear from lists.
const (
	Starting State = "starting"
	Ready    State = "ready" // it accepts applications; some services accept them earlier
	Ending   State = "ending"
	Ended    State = "ended"
)

// Place is a place in which applications run. Name and Region identify it, and ID saves calls if it is known. Release
// and Logs are as in Spec: a caller sets them, because a service of batches has no record of a place.
type Place struct {
	Name, Region  string
	Release, Logs string
	ID            string // the cloud's
	State         State
	Created       time.Time
	// Why is set if the place is ending or has ended without a request. Its kind states whether another place may
	// work. Some services keep such a place until End, and then forget the reason, too.
	Why *cloud.Error
}

// RunState is the state of a run.
type RunState string

// The states of a run.
const (
	Pending   RunState = "pending"
	Running   RunState = "running"
	Succeeded RunState = "succeeded"
	Failed    RunState = "failed"    // the application failed
	Cancelled RunState = "cancelled" // by Cancel or End
	Lost      RunState = "lost"      // its place ended, or the service lost it; the application is not to blame
)

// Final reports whether a run in this state has ended.
func (s RunState) Final() bool { return s != Pending && s != Running }

// Run is one run of an application. Name identifies it in its place; ID saves calls if it is known.
type Run struct {
	Name    string
	ID      string // the cloud's
	State   RunState
	Message string // why it failed or was lost
	// Began is the time at which the application moved to Running, and Ended the time at which it ended, if the
	// service reports them. Serverless services bill the time in between. Lists of runs may lack both.
	Began, Ended time.Time
}

// Log returns the output of an application that the service has stored so far. It is complete at the latest when the
// run has ended. Services that mix both streams return them as Stdout.
type Log struct {
	Stdout, Stderr []byte // the first MaxLog bytes each
}

// In returns the run as its place explains it: an ended place, or one that is lost, has no running applications.
func (r Run) In(p Place) Run {
	switch {
	case p.Why != nil && r.State != Succeeded && (p.State == Ending || p.State == Ended):
		r.State, r.Message = Lost, p.Why.Message
	case p.State == Ended && !r.State.Final():
		r.State = Lost
	}
	return r
}

// Service runs Spark applications. All methods are safe for concurrent use. Their errors are *cloud.Error.
type Service interface {
	// Name is the catalogue's name of the service: emr, emr-serverless, dataproc, dataproc-serverless.
	Name() string
	// Create makes a place, or returns the place with this name if it exists. It does not wait until the place is
	// ready. When it fails, the place may exist: the caller creates it again, or ends it. The name of a place that is
	// ending or has ended is Invalid, with CodeEnded.
	Create(ctx context.Context, spec Spec) (Place, error)
	// Submit starts a run in a place, or returns the run with this name if it exists. A place that has ended is
	// Invalid, with CodeEnded; one that is not ready yet may refuse as Throttled.
	Submit(ctx context.Context, at Place, app App) (Run, error)
	// Watch returns the state of a place and of a run in it; without a name of a run, that of the place alone. A run
	// that does not exist is Lost if the place has ended, else Invalid, with CodeNoRun and the state of the place.
	Watch(ctx context.Context, at Place, run Run) (Place, Run, error)
	// Log returns the log of a run; it is empty if the service has not written one.
	Log(ctx context.Context, at Place, run Run) (Log, error)
	// Cancel stops a run. It is idempotent; a run that has ended or does not exist is not an error.
	Cancel(ctx context.Context, at Place, run Run) error
	// End ends a place and its runs, as far as that is possible without waiting. It is idempotent; a missing place is
	// not an error. The caller repeats it until Places does not list the place, or lists it as Ended. After the first
	// call the place accepts nothing.
	End(ctx context.Context, at Place) error
	// Places lists the places of this deployment in all of its regions. A new place may be missing for a while.
	Places(ctx context.Context) ([]Place, error)
}

// ValidName reports whether a place or run may have this name.
func ValidName(name string) bool {
	return names.Made(name, 1, MaxName, names.Lower+names.Digits+"-") && strings.Contains(names.Lower, name[:1]) &&
		!strings.HasSuffix(name, "-")
}

// Prefix returns the prefix of the cloud's names of a deployment's places. The name of the place follows it. It
// leaves room for MaxName characters in the name of a cluster, which has at most 51 (Dataproc).
func Prefix(deployment string) string {
	sum := sha256.Sum256([]byte(deployment))
	return "tw-" + hex.EncodeToString(sum[:4]) + "-"
}

// Check returns an error of kind Invalid for a place that the service cannot make; scheme is that of its store.
func (s Spec) Check(of, scheme string) error {
	switch {
	case !ValidName(s.Name):
		return invalid(of, "invalid name %.100q of a place", s.Name)
	case s.Region == "" || s.Release == "":
		return invalid(of, "the place has no region or no release")
	case s.Executors.Min < 1 || s.Executors.Max < s.Executors.Min:
		return invalid(of, "from %d to %d executors", s.Executors.Min, s.Executors.Max)
	case !strings.HasPrefix(s.Logs, scheme+"://") || !strings.HasSuffix(s.Logs, "/"):
		return invalid(of, "%q is not a prefix of %s:// for logs", s.Logs, scheme)
	}
	return nil
}

// Check returns an error of kind Invalid for an application that the service cannot run; scheme is that of its store.
func (a App) Check(of, scheme string) error {
	if !ValidName(a.Name) {
		return invalid(of, "invalid name %.100q of a run", a.Name)
	}
	if a.Executors.Min < 1 || a.Executors.Max < a.Executors.Min {
		return invalid(of, "from %d to %d executors", a.Executors.Min, a.Executors.Max)
	}
	for _, f := range slices.Concat([]string{a.Main}, a.PyFiles, a.Jars) {
		if !strings.HasPrefix(f, scheme+"://") {
			return invalid(of, "file %.300q is not in the store of the service, %s://", f, scheme)
		}
	}
	return nil
}

func invalid(of, format string, args ...any) error {
	return cloud.Errorf(of, cloud.Invalid, CodeBadSpec, format, args...)
}

// ErrorEnded is the error for a place that has ended.
func ErrorEnded(of, place string) error {
	return cloud.Errorf(of, cloud.Invalid, CodeEnded, "place %s has ended", place)
}

// ErrorNoRun is the error for a run that its place does not have.
func ErrorNoRun(of, run string) error {
	return cloud.Errorf(of, cloud.Invalid, CodeNoRun, "there is no run %s", run)
}

// IsEnded reports whether err means that a place has ended.
func IsEnded(err error) bool {
	var e *cloud.Error
	return errors.As(err, &e) && e.Code == CodeEnded
}

// Properties returns the properties of Spark for an application: those of its executors, and its own, which take
// precedence.
func (a App) Properties() map[string]string {
	p := map[string]string{
		"spark.dynamicAllocation.enabled":          "true",
		"spark.dynamicAllocation.minExecutors":     strconv.Itoa(a.Executors.Min),
		"spark.dynamicAllocation.initialExecutors": strconv.Itoa(a.Executors.Min),
		"spark.dynamicAllocation.maxExecutors":     strconv.Itoa(a.Executors.Max),
	}
	if n := a.Executors.VCPUs; n > 0 {
		p["spark.executor.cores"], p["spark.driver.cores"] = strconv.Itoa(n), strconv.Itoa(n)
	}
	if n := a.Executors.MemoryGiB; n > 0 {
		p["spark.executor.memory"], p["spark.driver.memory"] = heap(n), heap(n)
	}
	maps.Copy(p, a.Conf)
	return p
}

// SparkSubmit returns the options with which spark-submit gets an application's files and properties.
func SparkSubmit(a App) (args []string) {
	for _, o := range []struct{ name, value string }{
		{"--class", a.Class}, {"--py-files", strings.Join(a.PyFiles, ",")}, {"--jars", strings.Join(a.Jars, ",")},
		{"--packages", strings.Join(a.Packages, ",")},
	} {
		if o.value != "" {
			args = append(args, o.name, o.value)
		}
	}
	properties := a.Properties()
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		args = append(args, "--conf", name+"="+properties[name])
	}
	return args
}

// heap returns the memory of Java in a worker with this memory: Spark adds a tenth for what is outside of the heap
// (Spark documentation, spark.executor.memoryOverheadFactor).
func heap(gib int) string { return strconv.Itoa(gib*1024*10/11) + "m" }
