package dag_test

import (
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
)

func TestWantedMatchesVersions(t *testing.T) {
	for _, c := range []struct{ want, yes, no string }{
		{"3.5", "3.5 3.5.0 3.5.6", "3 3.4.1 3.50.1 4.0.0"},
		{"3.5.1", "3.5.1", "3.5 3.5.0 3.5.10"},
		{"3.5+", "3.5 3.5.3 3.6.0 3.10.0", "3.4.4 4.0.0 2.9"},
		{"3.5.2+", "3.5.2 3.5.10 3.6", "3.5 3.5.1"},
		{"7.5+", "7.5.0 7.13.0", "7.4.0 6.15.0 8.0.0"},
		{"3", "3.1.3 3.5", "4.0.0 2.4.8"},
	} {
		want, err := dag.ParseVersionRange(c.want)
		if err != nil {
			t.Fatal(err)
		}
		for v := range strings.FieldsSeq(c.yes) {
			if !want.Match(v) {
				t.Errorf("%s does not match %s", c.want, v)
			}
		}
		for v := range strings.FieldsSeq(c.no) {
			if want.Match(v) {
				t.Errorf("%s matches %s", c.want, v)
			}
		}
	}
	for _, bad := range []string{"", "+", "3.", "three", "3.5.1.2", "-3", "3.5 "} {
		if _, err := dag.ParseVersionRange(bad); err == nil {
			t.Errorf("%q is read as a version", bad)
		}
	}
}

func TestPipWritesTheSameRange(t *testing.T) {
	for want, pip := range map[string]string{
		"3.5": "==3.5.*", "3.5.1": "==3.5.1", "3.5+": ">=3.5,<4", "3.5.2+": ">=3.5.2,<4", "3": "==3.*",
	} {
		w, err := dag.ParseVersionRange(want)
		if err != nil || w.Pip() != pip {
			t.Errorf("%s: %s, %v, want %s", want, w.Pip(), err, pip)
		}
	}
}

func TestChooseTakesTheNewestReleaseThatSuits(t *testing.T) {
	for _, c := range []struct{ service, release, spark, want string }{
		{"emr", "", "", "7.13.0"},
		{"emr", "7.5+", "", "7.13.0"},
		{"emr", "7.5", "", "7.5.0"},
		{"emr", "emr-7.5.0", "3.5+", "7.5.0"},
		{"emr", "", "3.5.2", "7.5.0"},
		{"emr", "", "3.4", "6.15.0"},
		{"emr", "7.5+", "3.4", "no release of emr that suits has Spark 3.4"},
		{"emr", "9.1", "", `emr has no release "9.1"`},
		{"emr", "newest", "", `"newest" is not a release`},
		{"emr-serverless", "6.10+", "3.3.1", "6.10.0"},
		{"dataproc", "2.2+", "", "2.3"},
		{"dataproc", "", "3.3+", "2.3"},
		{"dataproc-serverless", "1.1", "", "1.1"},
		{"dataproc-serverless", "", "4.0", "no release of dataproc-serverless that suits has Spark 4.0"},
	} {
		r, err := dag.ChooseSparkRelease(c.service, c.release, c.spark)
		if got := r.Name; err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: %v", c, err)
			}
		} else if got != c.want {
			t.Errorf("%v: %s", c, got)
		}
	}
}

func TestReleasesAreSortedAndEachOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range dag.SparkReleases() {
		if seen[r.Service+r.Name] {
			t.Errorf("%s %s is there twice", r.Service, r.Name)
		}
		seen[r.Service+r.Name] = true
		newest, err := dag.ChooseSparkRelease(r.Service, r.Name+"+", "")
		if err != nil {
			t.Errorf("%+v: %v", r, err)
		}
		for _, other := range dag.SparkReleases() {
			if later, _ := dag.ParseVersionRange(r.Name + "+"); other.Service == r.Service && later.Match(other.Name) {
				if other != newest {
					t.Errorf("%s %s comes before %s", r.Service, newest.Name, other.Name)
				}
				break
			}
		}
	}
}
