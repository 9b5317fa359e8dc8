package dag

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// The checks of single values. Readers use them at the line that has the value, and Validate on the
// whole; what they return does not know its place yet.

func checkName(s string) error {
	ok := s != "" && len(s) <= maxNameBytes && isAlnum(s[0])
	for i := 0; ok && i < len(s); i++ {
		ok = isAlnum(s[i]) || s[i] == '.' || s[i] == '_' || s[i] == '-'
	}
	if ok {
		return nil
	}
	return fault(quote(s)+" is not a name",
		fmt.Sprintf("letters, digits, '.', '_' and '-', beginning with a letter or digit, at most %d", maxNameBytes))
}

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func checkEnvName(s string) error {
	ok := s != "" && len(s) <= maxNameBytes && (s[0] < '0' || s[0] > '9')
	for i := 0; ok && i < len(s); i++ {
		ok = isAlnum(s[i]) || s[i] == '_'
	}
	if !ok {
		return fault(quote(s)+" is not the name of an environment variable", "letters, digits and '_', not beginning with a digit")
	}
	if strings.HasPrefix(s, reservedEnv) {
		return fault("variables that begin with "+reservedEnv+" are set by Tradewind", "choose another name")
	}
	return nil
}

// checkString refuses what no process can be given.
func checkString(s string) error {
	if strings.IndexByte(s, 0) >= 0 {
		return fault("contains a NUL byte", "")
	}
	if !utf8.ValidString(s) {
		return fault("is not valid UTF-8", "")
	}
	return nil
}

// checkText is for URIs, paths and the like: one line that is not empty.
func checkText(s string) error {
	if s == "" {
		return fault("is empty", "")
	}
	if len(s) > MaxTextBytes {
		return overLimit(fmt.Sprintf("has %d bytes, more than %d", len(s), MaxTextBytes), "")
	}
	if strings.ContainsAny(s, "\x00\r\n") {
		return fault("must be one line", "")
	}
	return checkString(s)
}

// checkWord is for the names that clouds give: regions, zones, instance types, accelerators.
func checkWord(s string) error {
	if err := checkText(s); err != nil {
		return err
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '*' }) {
		return fault(quote(s)+" has a character that no such name has", "")
	}
	return nil
}

func checkCount(n, least, most int) error {
	if n < least || n > most {
		return fault(fmt.Sprintf("%d is out of bounds", n), fmt.Sprintf("from %d to %d", least, most))
	}
	return nil
}

// checkRange checks an amount with bounds, of which no machine has more than most.
func checkRange(r Range, most float64) error {
	if r.IsZero() {
		return nil
	}
	limits := fmt.Sprintf("more than 0 and at most %s", formatNumber(most))
	switch {
	case math.IsNaN(r.Min) || math.IsNaN(r.Max):
		return fault("is not a number", limits)
	case r.Min < 0 || r.Max < 0:
		return fault("cannot be negative", limits)
	case r.Min > most || r.Max > most:
		return fault("is more than any machine has", limits)
	case r.Max != 0 && r.Min > r.Max:
		return fault(fmt.Sprintf("the least, %s, is more than the most, %s", formatNumber(r.Min), formatNumber(r.Max)), "write the smaller number first")
	}
	return nil
}

func checkSize(g GiB) error {
	switch v := float64(g); {
	case math.IsNaN(v) || v < 0:
		return fault("a size cannot be negative", "")
	case g > MaxSize:
		return fault("a size of more than "+formatSize(MaxSize), "")
	}
	return nil
}

// checkDuration is for times that must be positive.
func checkDuration(d time.Duration) error {
	switch {
	case d < 0:
		return fault("a time cannot be negative", "")
	case d == 0:
		return fault("must be more than 0", "leave it out for none")
	case d > MaxDuration:
		return fault("is more than "+formatDuration(MaxDuration), "")
	}
	return nil
}

func checkBudget(u USD) error {
	switch v := float64(u); {
	case math.IsNaN(v) || v <= 0:
		return fault("a budget must be more than 0", "leave it out for none")
	case u > MaxBudget:
		return fault("is more than "+formatNumber(float64(MaxBudget))+" USD", "")
	}
	return nil
}

func checkAccelerator(name string, count float64) error {
	if name == "" {
		if count != 0 {
			return fault("a count without an accelerator", "")
		}
		return nil
	}
	if err := checkWord(name); err != nil {
		return err
	}
	if strings.ContainsAny(name, ":,{}") {
		return fault(quote(name)+" is not the name of an accelerator", "write NAME or NAME:COUNT")
	}
	if !(count > 0) || count > MaxAccelerators { // also of NaN
		return fault(fmt.Sprintf("%s accelerators cannot be had", formatNumber(count)), "a count is more than 0; leave the field out for none")
	}
	return nil
}

func checkChoice[T ~string](what string, v T, choices []T) error {
	if slices.Contains(choices, v) {
		return nil
	}
	words := make([]string, len(choices))
	for i, c := range choices {
		words[i] = string(c)
	}
	return fault(fmt.Sprintf("unknown %s %s", what, quote(string(v))), oneOf(string(v), words))
}

func objectives() []Objective   { return []Objective{MinimizeCost, MinimizeMakespan} }
func infeasibles() []Infeasible { return []Infeasible{Fail, Wait} }
func markets() []Market         { return []Market{MarketAuto, MarketSpot, MarketOnDemand} }
func arches() []string          { return []string{"amd64", "arm64"} }

// services gives the managed services, with the cloud that has each.
func services() map[string]string { return map[string]string{"emr": "aws", "dataproc": "gcp"} }

// clouds are the names of clouds that are spelled often enough to be misspelled. Others may be in a
// catalogue of the user's own.
func clouds() []string {
	return []string{"aws", "gcp", "azure", "lambda", "kubernetes", "local", "ibm", "oci", "runpod", "vast", "nebius",
		"fluidstack", "cudo", "paperspace", "vsphere", "scp", "seeweb", "hyperbolic", "primeintellect", "slurm", "ssh"}
}

// checkCloud refuses only what is nearly the name of a cloud that is known.
func checkCloud(s string) error {
	if err := checkWord(s); err != nil {
		return err
	}
	if strings.ContainsAny(s, ":/") {
		return fault(quote(s)+" is not the name of a cloud", "a region has a field of its own")
	}
	known := clouds()
	if slices.Contains(known, s) {
		return nil
	}
	if hint := didYouMean(s, known); hint != "" {
		return fault("unknown cloud "+quote(s), hint)
	}
	return nil
}

// checkPlace is for the places of a job: CLOUD or CLOUD:REGION.
func checkPlace(s string) error {
	cloud, region, some := strings.Cut(s, ":")
	if strings.Contains(s, "/") {
		return fault(quote(s)+" is not a place", "write CLOUD or CLOUD:REGION, such as gcp:europe-west4")
	}
	if some {
		if err := checkWord(region); err != nil {
			return fault(quote(s)+" is not a place", "write CLOUD or CLOUD:REGION, such as gcp:europe-west4")
		}
	}
	return checkCloud(cloud)
}

// schemes of the data that the agent can stage.
func schemes() []string { return []string{"s3", "gs", "azblob", "file"} }

// checkURI is for data: a URL of a scheme that can be staged, or a local path.
func checkURI(s string) error {
	if err := checkText(s); err != nil {
		return err
	}
	scheme, rest, some := strings.Cut(s, "://")
	if !some {
		return nil
	}
	if !slices.Contains(schemes(), scheme) {
		hint := "s3://, gs://, azblob://, file:// or a local path"
		if near := nearest(scheme, schemes()); near != "" {
			hint = "did you mean " + near + "://?"
		}
		return fault("data cannot be read from "+quote(s), hint)
	}
	if strings.Trim(rest, "/") == "" {
		return fault(quote(s)+" names no data", "")
	}
	return nil
}

// checkInside is for paths that must not leave the directory they are relative to.
func checkInside(s string) error {
	if err := checkText(s); err != nil {
		return err
	}
	if path.IsAbs(s) || strings.HasPrefix(s, "~") {
		return fault(quote(s)+" is not relative", "a path below the task's own directory")
	}
	return checkClimb(s)
}

// checkMountPath is for the paths at which a task sees its inputs.
func checkMountPath(s string) error {
	if err := checkText(s); err != nil {
		return err
	}
	return checkClimb(s)
}

func checkClimb(s string) error {
	if c := path.Clean(s); c == ".." || strings.HasPrefix(c, "../") {
		return fault(quote(s)+" leaves the task's directory", "remove the ..")
	}
	return nil
}
