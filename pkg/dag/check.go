package dag

import (
	"fmt"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/fault"
)

// The checks of single values. Readers use them at the line that has the value, and Validate on the
// whole; what they return does not know its place yet.

// CheckName says what is wrong with the name of a task, or of what it leaves.
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

// CheckEnvName says what is wrong with the name of an environment variable.
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

// CheckText is for URIs, paths and the like: one line that is not empty.
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

// CheckWord is for the names that clouds give: regions, zones, instance types, accelerators.
func CheckWord(s string) error {
	if err := CheckText(s); err != nil {
		return err
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '*' }) {
		return fault.New(fault.Quote(s)+" has a character that no such name has", "")
	}
	return nil
}

func checkCount(n, least, most int) error {
	if n < least || n > most {
		return fault.New(fmt.Sprintf("%d is out of bounds", n), fmt.Sprintf("from %d to %d", least, most))
	}
	return nil
}

// Check sees whether r is an amount with bounds, of which no machine has more than most.
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
			fmt.Sprintf("the least, %s, is more than the most, %s", least, most),
			"write the smaller number first",
		)
	}
	return nil
}

// Check sees whether g is the size of something.
func (g GiB) Check() error {
	switch v := float64(g); {
	case math.IsNaN(v) || v < 0:
		return fault.New("a size cannot be negative", "")
	case g > MaxSize:
		return fault.New("a size of more than "+FormatSize(MaxSize), "")
	}
	return nil
}

// checkDuration is for times that must be positive.
func checkKeep(d time.Duration) error {
	if d > MaxKeep {
		return fault.New("is more than "+FormatDuration(MaxKeep), "")
	}
	return checkDuration(d)
}

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

func checkBudget(u USD) error {
	switch v := float64(u); {
	case math.IsNaN(v) || v <= 0:
		return fault.New("a budget must be more than 0", "leave it out for none")
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
			fmt.Sprintf("%s accelerators cannot be had", FormatNumber(count)),
			"a count is more than 0; leave the field out for none",
		)
	}
	return nil
}

// Check sees whether o is one of the objectives.
func (o Objective) Check() error {
	return fault.CheckWord("objective", o, MinimizeCost, MinimizeMakespan)
}

// Check sees whether i is Retry, Fail or Wait.
func (i Infeasible) Check() error { return fault.CheckWord("choice", i, Retry, Fail, Wait) }

// Check sees whether m is one of the markets.
func (m Market) Check() error {
	return fault.CheckWord("market", m, MarketAuto, MarketSpot, MarketOnDemand)
}

// CheckArch is for the architectures of processors, as Go calls them.
func CheckArch(s string) error { return fault.CheckWord("architecture", s, "amd64", "arm64") }

// CheckService is for managed services.
func CheckService(s string) error {
	return fault.CheckWord("managed service", s, slices.Sorted(maps.Keys(services()))...)
}

// services gives the managed services, with the cloud that has each.
func services() map[string]string { return map[string]string{"emr": "aws", "dataproc": "gcp"} }

// ServiceCloud is the cloud that has a managed service; empty where none is known.
func ServiceCloud(service string) string { return services()[service] }

// clouds are the names of clouds that are spelled often enough to be misspelled. Others may be in a
// catalogue of the user's own.
func clouds() []string {
	return []string{"aws", "gcp", "azure", "lambda", "kubernetes", "local", "ibm", "oci", "runpod", "vast", "nebius",
		"fluidstack", "cudo", "paperspace", "vsphere", "scp", "seeweb", "hyperbolic", "primeintellect", "slurm", "ssh"}
}

// ability is what machines of a cloud can, or tell, otherwise than those of most. Jobs are checked and planned by it
// where no driver is at hand.
type ability struct {
	racks    bool // labels may say in which racks they are, and the driver keeps to rules about racks
	noMounts bool // buckets cannot be mounted on them
}

func abilities() map[string]ability {
	return map[string]ability{"kubernetes": {racks: true, noMounts: true}}
}

// TellsRacks says whether it may be known of a cloud's machines in which racks they are.
func TellsRacks(cloud string) bool { return abilities()[cloud].racks }

// CheckCloud refuses only what is nearly the name of a cloud that is known.
func CheckCloud(s string) error {
	if err := CheckWord(s); err != nil {
		return err
	}
	if strings.ContainsAny(s, ":/") {
		return fault.New(fault.Quote(s)+" is not the name of a cloud", "a region has a field of its own")
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

// CheckPlace is for the places of a job: CLOUD, CLOUD:REGION or eu.
func CheckPlace(s string) error {
	if s == unionPlace {
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

// schemes of the data that the agent can stage.
func schemes() []string { return []string{"s3", "gs", "azblob", "file", "pack"} }

// CheckURI is for data: a URL of a scheme that can be staged, or a local path.
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

// CheckRepositoryURL is for git repositories: any URL or path that git takes, but no option of it and none of its
// transports that run a program.
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

// CheckRef is for a branch, tag or commit of a git repository (git-check-ref-format(1)).
func CheckRef(s string) error {
	if err := CheckText(s); err != nil {
		return err
	}
	if strings.HasPrefix(s, "-") || strings.ContainsAny(s, " ~^:?*[\\\x7f") || strings.Contains(s, "..") {
		return fault.New(fault.Quote(s)+" is not a branch, a tag or a commit", "")
	}
	return nil
}

// CheckInside is for paths that must not leave the directory they are relative to.
func CheckInside(s string) error {
	if err := CheckText(s); err != nil {
		return err
	}
	if path.IsAbs(s) || strings.HasPrefix(s, "~") {
		return fault.New(fault.Quote(s)+" is not relative", "a path below the task's own directory")
	}
	return checkClimb(s)
}

// CheckMountPath is for the paths at which a task sees its inputs.
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

// Check sees whether the fields of an alternative can hold together; each alone is checked where it is read.
func (r *Resources) Check() error {
	if cloud, ok := services()[r.Service]; ok && r.Cloud != "" && r.Cloud != cloud {
		return fault.Within(
			"service",
			fault.New("there is no "+r.Service+" on "+r.Cloud, "it is a service of "+cloud),
		)
	}
	return nil
}

// CheckDescription is for texts that only people read.
func CheckDescription(s string) error {
	if len(s) > MaxTextBytes {
		return fault.OverLimit(fmt.Sprintf("has %d bytes, more than %d", len(s), MaxTextBytes), "")
	}
	return fault.CheckString(s)
}

// imageRef is a container image by its name, tag or digest. It never begins as an option of a program does.
var imageRef = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]*$`)

// likeContainer is REGISTRY/NAME:TAG, of which the tag alone has to be there: no cloud names machines' images so.
var likeContainer = regexp.MustCompile(`^([a-z0-9.-]+(:[0-9]+)?/)?[a-z0-9._/-]+:[A-Za-z0-9_][A-Za-z0-9._-]*$`)

// LikeContainer says that a machine's image is named as those of containers are.
func LikeContainer(image string) bool {
	return !strings.HasPrefix(image, containerScheme) && likeContainer.MatchString(image)
}

// CheckImage says what is wrong with the image of a resource.
func CheckImage(s string) error {
	if ref, container := strings.CutPrefix(s, containerScheme); container && !imageRef.MatchString(ref) {
		return fault.New(fault.Quote(s)+" is not a container's image",
			"docker: and its name, such as docker:ubuntu:24.04")
	}
	return CheckText(s)
}
