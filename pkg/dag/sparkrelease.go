package dag

import (
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
)

// DefaultSpark is the version of Spark for a task that requests none.
const DefaultSpark = "3.5"

// SparkRelease is a release of a managed service that runs Spark. sparkreleases.csv has the releases; the README of the
// catalogue's data names their sources.
type SparkRelease struct {
	Service string `json:"service"`
	// Name is as the service spells it, without a prefix: 7.5.0 of EMR, 2.2 of Dataproc.
	Name string `json:"release"`
	// Spark is its version of Spark. It has two numbers if the service updates the third in place.
	Spark string `json:"spark"`
}

//go:embed sparkreleases.csv
var sparkTable string

// sparkReleases returns the known releases: by service, the newest first.
var sparkReleases = sync.OnceValue(func() []SparkRelease {
	rows, err := csv.NewReader(strings.NewReader(sparkTable)).ReadAll()
	if err != nil {
		panic(err) // the file is part of the program, and tests read it
	}
	all := make([]SparkRelease, 0, len(rows))
	for _, row := range rows[1:] {
		all = append(all, SparkRelease{Service: row[0], Name: row[1], Spark: row[2]})
	}
	return all
})

// SparkReleasesOf returns the releases of a service (of all services if empty) whose version of Spark matches: 3.5,
// 3.5.1 or 3.5+; an empty version matches all.
func SparkReleasesOf(service, spark string) ([]SparkRelease, error) {
	want := VersionRange{}
	if spark != "" {
		var err error
		if want, err = ParseVersionRange(spark); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(slices.Clone(sparkReleases()), func(r SparkRelease) bool {
		return service != "" && r.Service != service || !want.Match(r.Spark)
	}), nil
}

// ChooseSparkRelease returns the newest release of a service that suits: release is 7.5, 7.5.0, 7.5+ or emr-7.5.0, or
// empty, and spark a version of Spark; if both are empty, DefaultSpark.
func ChooseSparkRelease(service, release, spark string) (SparkRelease, error) {
	if release == "" && spark == "" {
		spark = DefaultSpark
	}
	of, err := SparkReleasesOf(service, "")
	if err != nil {
		return SparkRelease{}, err
	}
	named := of
	if release != "" {
		want, err := ParseVersionRange(strings.TrimPrefix(release, service+"-"))
		if err != nil {
			return SparkRelease{}, fault.New(fault.Quote(release)+" is not a release of "+service,
				fmt.Sprintf("write one, such as %s, or %[1]s+ for it or a later one", of[0].Name))
		}
		named = slices.DeleteFunc(slices.Clone(of), func(r SparkRelease) bool { return !want.Match(r.Name) })
		if len(named) == 0 {
			return SparkRelease{}, fault.New(fmt.Sprintf("%s has no release %s", service, fault.Quote(release)),
				"one of "+listReleases(of, func(r SparkRelease) string { return r.Name }))
		}
	}
	if spark != "" {
		want, err := ParseVersionRange(spark)
		if err != nil {
			return SparkRelease{}, err
		}
		suits := slices.DeleteFunc(slices.Clone(named), func(r SparkRelease) bool { return !want.Match(r.Spark) })
		if len(suits) == 0 {
			return SparkRelease{}, fault.New(fmt.Sprintf("no release of %s that suits has Spark %s", service, spark),
				"they have Spark "+listReleases(named, func(r SparkRelease) string { return r.Spark }))
		}
		named = suits
	}
	return named[0], nil
}

func listReleases(all []SparkRelease, of func(SparkRelease) string) string {
	var names []string
	for _, r := range all {
		if !slices.Contains(names, of(r)) {
			names = append(names, of(r))
		}
	}
	return strings.Join(names, ", ")
}

// VersionRange is a range of versions: all that begin with its numbers or, with OrLater, also later ones with the same
// first number, since another first number is another interface. The zero value matches all.
type VersionRange struct {
	Numbers []int
	OrLater bool
}

var errVersion = errors.New("not a version: write 3.5, 3.5.1 or 3.5+")

// ParseVersionRange reads 3.5, 3.5.1, 3.5+ or 3.5.1+.
func ParseVersionRange(s string) (w VersionRange, err error) {
	s, w.OrLater = strings.CutSuffix(s, "+")
	if w.Numbers, err = versionNumbers(s); err != nil || len(w.Numbers) > 3 {
		return VersionRange{}, errVersion
	}
	return w, nil
}

func versionNumbers(s string) (of []int, err error) {
	for part := range strings.SplitSeq(s, ".") {
		n, err := strconv.ParseUint(part, 10, 16)
		if err != nil {
			return nil, err
		}
		of = append(of, int(n))
	}
	return of, nil
}

// Match reports whether a version is in the range.
func (w VersionRange) Match(version string) bool {
	has, err := versionNumbers(version)
	if err != nil || len(w.Numbers) == 0 {
		return err == nil
	}
	if w.OrLater {
		return has[0] == w.Numbers[0] && slices.Compare(has, w.Numbers) >= 0
	}
	return len(has) >= len(w.Numbers) && slices.Equal(has[:len(w.Numbers)], w.Numbers)
}

// Pip returns the range as pip writes it.
func (w VersionRange) Pip() string {
	text := make([]string, len(w.Numbers))
	for i, n := range w.Numbers {
		text[i] = strconv.Itoa(n)
	}
	version := strings.Join(text, ".")
	switch {
	case w.OrLater:
		return fmt.Sprintf(">=%s,<%d", version, w.Numbers[0]+1)
	case len(w.Numbers) < 3:
		return "==" + version + ".*"
	}
	return "==" + version
}
