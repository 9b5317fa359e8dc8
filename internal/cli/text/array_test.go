package text

import (
	"reflect"
	"testing"
)

func TestMembersOfAnArrayAreOneRun(t *testing.T) {
	names := []string{"a", "a[0]", "b[1]", "b[4]", "b[7]", "c", "d[0]", "d[1]"}
	if got, want := MemberRuns(names), [][2]int{{2, 5}, {6, 8}}; !reflect.DeepEqual(got, want) {
		t.Errorf("the runs are %v, not %v", got, want)
	}
	if got := Array(names[2:5]); got != "b[1-7]" {
		t.Errorf("the array is %s", got)
	}
	if _, _, ok := Member("a[x]"); ok {
		t.Error("a[x] is a member")
	}
}

func TestTallyNamesTheMostCommonStateFirst(t *testing.T) {
	states := []string{"failed", "succeeded", "succeeded"}
	if got := Tally(states); got != "3 members: 2 succeeded, 1 failed" {
		t.Error(got)
	}
}

func TestSameCountsDifferentTexts(t *testing.T) {
	of := func(list ...string) string {
		return Same(len(list), "place", func(i int) string { return list[i] })
	}
	if a, b, c := of("x", "", "x"), of("x", "y", "x"), of(""); a != "x" || b != "2 places" || c != "" {
		t.Errorf("%q, %q, %q", a, b, c)
	}
}
