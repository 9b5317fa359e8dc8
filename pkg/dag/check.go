package dag

import (
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
)

// The checks of single values. Readers call them at the line of the value, and Validate calls them for the whole job.
// The errors that they return do not have a position yet.

// CheckName returns an error if s is not a valid name of a task or an output.
func CheckName(s string) error {
	ok := s != "" && len(s) <= maxNameBytes && fault.IsAlnum(s[0])
	for i := 0; ok && i < len(s); i++ {
		ok = fault.IsAlnum(s[i]) || s[i] == '.' || s[i] == '_' || s[i] == '-'
	}
	if ok {
		return nil
	}
	return fault.New(fault.Quote(s)+" is not a name",
		fmt.Sprintf("letters, digits, '.', '_' and '-', beginning with a letter or digit, at most %d", maxNameBytes))
}

// CheckEnvName returns an error if s is not a valid name of an environment variable, or is reserved for Tradewind.
func CheckEnvName(s string) error {
	ok := s != "" && len(s) <= maxNameBytes && (s[0] < '0' || s[0] > '9')
	for i := 0; ok && i < len(s); i++ {
		ok = fault.IsAlnum(s[i]) || s[i] == '_'
	}
	if !ok {
		return fault.New(
			fault.Quote(s)+" is not the name of an environment variable",
			"letters, digits and '_', not beginning with a digit",
		)
	}
	if strings.HasPrefix(s, reservedEnv) {
		return fault.New("variables that begin with "+reservedEnv+" are set by Tradewind", "choose another name")
	}
	return nil
}

// CheckText checks URIs, paths and similar texts: they are one line and not empty.
func CheckText(s string) error {
	if s == "" {
		return fault.New("is empty", "")
	}
	if len(s) > MaxTextBytes {
		return fault.OverLimit(fmt.Sprintf("has %d bytes, more than %d", len(s), MaxTextBytes), "")
	}
	if strings.ContainsAny(s, "\x00\r\n") {
		return fault.New("must be one line", "")
	}
	return fault.CheckString(s)
}

// CheckWord checks names that clouds use: regions, zones, instance types, accelerators.
func CheckWord(s string) error {
	if err := CheckText(s); err != nil {
		return err
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '*' }) {
		return fault.New(fault.Quote(s)+" has an invalid character", "")
	}
	return nil
}

func checkCount(n, least, most int) error {
	if n < least || n > most {
		return fault.New(fmt.Sprintf("%d is out of bounds", n), fmt.Sprintf("from %d to %d", least, most))
	}
	return nil
}

// Check returns an error if r is not a valid range, or is more than most, which is more than any machine has.
func (r Range) Check(most float64) error {
	if r.IsZero() {
		return nil
	}
	limits := fmt.Sprintf("more than 0 and at most %s", FormatNumber(most))
	switch {
	case math.IsNaN(r.Min) || math.IsNaN(r.Max):
		return fault.New("is not a number", limits)
	case r.Min < 0 || r.Max < 0:
		return fault.New("cannot be negative", limits)
	case r.Min > most || r.Max > most:
		return fault.New("is more than any machine has", limits)
	case r.Max != 0 && r.Min > r.Max:
		least, most := fault.Number(r.Min), fault.Number(r.Max)
		if least == most {
			least, most = FormatNumber(r.Min), FormatNumber(r.Max)
		}
		return fault.New(
			fmt.Sprintf("the minimum, %s, is more than the maximum, %s", least, most),
			"write the smaller number first",
		)
	}
	return nil
}

// Check returns an error if g is negative, not a number or above MaxSize.
func (g GiB) Check() error {
	switch v := float64(g); {
	case math.IsNaN(v) || v < 0:
		return fault.New("a size cannot be negative", "")
	case g > MaxSize:
		return fault.New("a size of more than "+FormatSize(MaxSize), "")
	}
	return nil
}

// checkKeep checks Job.KeepOnFailure.
func checkKeep(d time.Duration) error {
	if d > maxKeep {
		return fault.New("is more than "+FormatDuration(maxKeep), "")
	}
	return checkDuration(d)
}

// checkDuration checks a time that must be positive.
func checkDuration(d time.Duration) error {
	switch {
	case d < 0:
		return fault.New("a time cannot be negative", "")
	case d == 0:
		return fault.New("must be more than 0", "leave it out for none")
	case d > MaxDuration:
		return fault.New("is more than "+FormatDuration(MaxDuration), "")
	}
	return nil
}

func checkBudget(u USD) error { return checkUSD(u, "a budget", "leave it out for none") }

// checkHourly checks Resources.MaxUSDPerHour.
func checkHourly(u USD) error { return checkUSD(u, "a price", "leave it out for no limit") }

// checkUSD checks an amount of money that must be positive. what names it in the error, and none says how to have none.
func checkUSD(u USD, what, none string) error {
	switch v := float64(u); {
	case math.IsNaN(v) || v <= 0:
		return fault.New(what+" must be more than 0", none)
	case u > MaxBudget:
		return fault.New("is more than "+FormatNumber(float64(MaxBudget))+" USD", "")
	}
	return nil
}

func checkAccelerator(name string, count float64) error {
	if name == "" {
		if count != 0 {
			return fault.New("a count without an accelerator", "")
		}
		return nil
	}
	if err := CheckWord(name); err != nil {
		return err
	}
	if strings.ContainsAny(name, ":,{}") {
		return fault.New(fault.Quote(name)+" is not the name of an accelerator", "write NAME or NAME:COUNT")
	}
	if !(count > 0) || count > MaxAccelerators { // also of NaN
		return fault.New(
			fmt.Sprintf("%s is not a valid number of accelerators", FormatNumber(count)),
			"a count is more than 0; leave the field out for none",
		)
	}
	return nil
}

// Check returns an error if o is not one of the objectives.
func (o Objective) Check() error {
	return fault.CheckWord("objective", o, MinimizeCost, MinimizeMakespan, MinimizeWeighted)
}

// Check returns an error if i is not Retry, Fail or Wait.
func (i Infeasible) Check() error { return fault.CheckWord("choice", i, Retry, Fail, Wait) }

// Check returns an error if m is not one of the markets.
func (m Market) Check() error {
	return fault.CheckWord("market", m, MarketAuto, MarketSpot, MarketOnDemand)
}

// CheckArch checks the architecture of a processor, named like Go's GOARCH values, or AnyArch.
func CheckArch(s string) error { return fault.CheckWord("architecture", s, "amd64", "arm64", AnyArch) }

// clouds are the known names of clouds, to detect misspellings. A user's own catalogue may have others.
func clouds() []string {
	return []string{"aws", "gcp", "azure", "lambda", "kubernetes", "local", "ibm", "oci", "runpod", "vast", "nebius",
		"fluidstack", "cudo", "paperspace", "vsphere", "scp", "seeweb", "hyperbolic", "primeintellect", "slurm", "ssh"}
}

// cloudAbilities describes how the machines of a cloud differ from those of most clouds. Jobs are checked and planned
// with it if no driver is available.
type cloudAbilities struct {
	racks    bool // labels may name the racks of machines, and the driver follows rules about racks
	noMounts bool // buckets cannot be mounted
}

func abilities() map[string]cloudAbilities {
	return map[string]cloudAbilities{"kubernetes": {racks: true, noMounts: true}}
}

// CanHaveRacks reports whether the racks of a cloud's machines can be known.
func CanHaveRacks(cloud string) bool { return abilities()[cloud].racks }

// CheckCloud rejects a name that is similar to a known cloud, or contains a region. It accepts other unknown names.
func CheckCloud(s string) error {
	if err := CheckWord(s); err != nil {
		return err
	}
	if strings.ContainsAny(s, ":/") {
		return fault.New(fault.Quote(s)+" is not the name of a cloud", "write the region in the field region")
	}
	known := clouds()
	if slices.Contains(known, s) {
		return nil
	}
	if hint := fault.DidYouMean(s, known); hint != "" {
		return fault.New("unknown cloud "+fault.Quote(s), hint)
	}
	return nil
}

// CheckPlace checks the places of a job: CLOUD, CLOUD:REGION or eu.
func CheckPlace(s string) error {
	if s == europeanUnion {
		return nil
	}
	cloud, region, some := strings.Cut(s, ":")
	if strings.Contains(s, "/") {
		return fault.New(fault.Quote(s)+" is not a place", "write CLOUD or CLOUD:REGION, such as gcp:europe-west4")
	}
	if some {
		if err := CheckWord(region); err != nil {
			return fault.New(
				fault.Quote(s)+" is not a place",
				"write CLOUD or CLOUD:REGION, such as gcp:europe-west4",
			)
		}
	}
	return CheckCloud(cloud)
}

// Topic is the pattern of the topics that a job's end can be published to, pubsub://PROJECT/TOPIC. Its groups are the
// project and the topic (Pub/Sub, "Topic", field name; Resource Manager, "Project", field projectId).
const Topic = `^pubsub://([a-z](?:[a-z0-9.:-]{0,98}[a-z0-9]))/([A-Za-z][A-Za-z0-9._~%+-]{2,254})$`

// lazy returns a regular expression that is compiled at its first use, so that no program waits for it at its start.
// It is not package lazyregexp, because clients link this package.
func lazy(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

var validTopic = lazy(Topic)

// CheckTopic checks the topic that a job's end is published to.
func CheckTopic(s string) error {
	m := validTopic().FindStringSubmatch(s)
	if m == nil || strings.HasPrefix(m[2], "goog") {
		return fault.New(fault.Quote(s)+" is not a topic", "write pubsub://PROJECT/TOPIC, such as pubsub://acme/jobs")
	}
	return nil
}

// schemes returns the URL schemes of data that the agent can stage.
func schemes() []string { return []string{"s3", "gs", "azblob", "file", "pack"} }

// CheckURI checks the address of data: a URL with a scheme that can be staged, or a local path.
func CheckURI(s string) error {
	if err := CheckText(s); err != nil {
		return err
	}
	scheme, rest, some := strings.Cut(s, "://")
	if !some {
		return nil
	}
	if !slices.Contains(schemes(), scheme) {
		hint := "s3://, gs://, azblob://, file:// or a local path"
		if near := fault.Nearest(scheme, schemes()); near != "" {
			hint = "did you mean " + near + "://?"
		}
		return fault.New("data cannot be read from "+fault.Quote(s), hint)
	}
	if strings.Trim(rest, "/") == "" {
		return fault.New(fault.Quote(s)+" names no data", "")
	}
	return nil
}

// CheckPlainURI is CheckURI for a format in which variables are not replaced: no store allows $ in a bucket's name.
func CheckPlainURI(s string) error {
	if _, rest, some := strings.Cut(s, "://"); some {
		if bucket, _, _ := strings.Cut(rest, "/"); strings.Contains(bucket, "$") {
			return fault.New(fault.Quote(s)+" has a variable that nothing replaces", "write the name of the bucket")
		}
	}
	return CheckURI(s)
}

// CheckRepositoryURL checks the URL of a git repository. It accepts any URL or path that git accepts, except options
// of git and transports that run a program.
func CheckRepositoryURL(s string) error {
	if err := CheckText(s); err != nil {
		return err
	}
	helper, _, runs := strings.Cut(s, "::") // git-remote-HELPER, a program
	if strings.HasPrefix(s, "-") || runs && !strings.ContainsAny(helper, "[/") {
		return fault.New(fault.Quote(s)+" is not the URL of a git repository", "https://…, ssh://… or git@host:path")
	}
	return nil
}

// CheckRef checks a branch, tag or commit of a git repository (git-check-ref-format(1)).
func CheckRef(s string) error {
	if err := CheckText(s); err != nil {
		return err
	}
	if strings.HasPrefix(s, "-") || strings.ContainsAny(s, " ~^:?*[\\\x7f") || strings.Contains(s, "..") {
		return fault.New(fault.Quote(s)+" is not a branch, a tag or a commit", "")
	}
	return nil
}

// CheckInside checks a path that must not leave the directory it is relative to.
func CheckInside(s string) error {
	if err := CheckText(s); err != nil {
		return err
	}
	if path.IsAbs(s) || strings.HasPrefix(s, "~") {
		return fault.New(fault.Quote(s)+" is not relative", "a path below the task's directory")
	}
	return checkClimb(s)
}

// CheckMountPath checks a path at which a task sees an input.
func CheckMountPath(s string) error {
	if err := CheckText(s); err != nil {
		return err
	}
	return checkClimb(s)
}

func checkClimb(s string) error {
	if c := path.Clean(s); c == ".." || strings.HasPrefix(c, "../") {
		return fault.New(fault.Quote(s)+" leaves the task's directory", "remove the ..")
	}
	return nil
}

// CheckDescription checks a text that only people read.
func CheckDescription(s string) error {
	if len(s) > MaxTextBytes {
		return fault.OverLimit(fmt.Sprintf("has %d bytes, more than %d", len(s), MaxTextBytes), "")
	}
	return fault.CheckString(s)
}

// imageRef is a container image with its tag or digest. It cannot begin like an option of a program.
var imageRef = lazy(`^[A-Za-z0-9][A-Za-z0-9._:/@-]*$`)

// likeContainer is REGISTRY/NAME:TAG; only the tag is required. No cloud names machine images like this.
var likeContainer = lazy(`^([a-z0-9.-]+(:[0-9]+)?/)?[a-z0-9._/-]+:[A-Za-z0-9_][A-Za-z0-9._-]*$`)

// LikeContainer reports whether a machine image is named like a container image.
func LikeContainer(image string) bool {
	return !strings.HasPrefix(image, containerScheme) && likeContainer().MatchString(image)
}

// CheckImage checks the image of an alternative.
func CheckImage(s string) error {
	if ref, container := strings.CutPrefix(s, containerScheme); container && !imageRef().MatchString(ref) {
		return fault.New(fault.Quote(s)+" is not a container's image",
			"docker: and its name, such as docker:ubuntu:24.04")
	}
	return CheckText(s)
}

// CheckCPU returns an error if s is not the name of a processor.
func CheckCPU(s string) error {
	if _, err := ParseCPUsAtLeast(s); err == nil {
		return fault.New(fault.Quote(s)+" is a number of vCPUs, not a processor", "write cpus: "+s)
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(s, "shared-"), "/")
	name, _, _ = strings.Cut(name, "-")
	if !slices.ContainsFunc(processors, func(p string) bool { return strings.EqualFold(p, name) }) {
		return fault.New("unknown processor "+fault.Quote(s), fault.OneOf(s, processors))
	}
	return nil
}

// processors are the names of the generations of processors in the catalogue, in byte order. They are here because
// clients check job files without the catalogue.
var processors = []string{"altra", "aws5", "broadwell", "cascadelake", "cobalt100", "coffeelake", "emeraldrapids",
	"genoa", "graniterapids", "graviton1", "graviton2", "graviton3", "graviton4", "graviton5", "haswell", "icelake",
	"ivybridge", "milan", "naples", "old", "rome", "sapphirerapids", "skylake", "turin"}
