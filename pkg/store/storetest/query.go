package storetest

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

var queryTests = map[string]func(*testing.T, store.Store){
	"a query finds the prefix in its partition":     testQueryPrefix,
	"a query is in byte order, odd bytes too":       testQueryByteOrder,
	"pages of every size show each record once":     testQueryPages,
	"a page continues after any sort key":           testQueryAfter,
	"keys that look alike when joined are distinct": testQueryBoundaries,
	"more is exact":                                    testQueryMore,
	"a page ends at its limit of bytes":                testQueryPageBytes,
	"a query returns complete records":                 testQueryRecords,
	"a query without matches is empty, not an error":   testQueryNothing,
	"a query continues after deleted records":          testQueryDeleted,
	"a long partition is read completely and in order": testQueryLong,
}

// oddKeys are sort keys that a careless encoding confuses, in byte order. All
// are UTF-8.
var oddKeys = []string{
	"\x00", "\x00\x00", "\x00\x01", "\x00\x01\x01", "\x00\u00ff", "\x01", "\x01\x00", " ", "#", "%00", "%2F", "/", "//",
	"0", "10", "2",
	"A", "a", "a\x00", "a\x00b", "a\x01", "a ", "a#b", "a/", "a/\x00", "a/b", "aa", "ab", "b", "{}", "|", "~", "\x7f",
	"\u0080", "é", "é/", "ÿ", "߿", "ࠀ", "\ud7ff", "\ue000", "\ufeff", "\ufffd", "\uffff", "\U00010000", "\U0001f6f3",
	"\U0010ffff", "\U0010ffff\U0010ffff",
}

// fill commits records with the given sort keys, and the sort key as body, several
// in each transaction and not in the order of the keys.
func fill(t testing.TB, s store.Store, partition string, sorts ...string) {
	t.Helper()
	var writes []store.Write
	for i := range sorts {
		k := sorts[(i*7+3)%len(sorts)]
		if len(sorts)%7 == 0 {
			k = sorts[len(sorts)-1-i]
		}
		writes = append(writes, put(key(partition, k), store.Absent, k))
	}
	for chunk := range slices.Chunk(writes, store.MaxItems) {
		commit(t, s, chunk...)
	}
}

func wantSorts(t testing.TB, what string, got []store.Record, want []string) {
	t.Helper()
	if !slices.Equal(sorts(got), want) {
		t.Errorf("%s = %q, want %q", what, sorts(got), want)
	}
}

func testQueryPrefix(t *testing.T, s store.Store) {
	fill(t, s, "job/1", "plan/1", "task/a", "task/a/attempt/1", "task/ab", "task/b", "taskx")
	fill(t, s, "job/10", "task/other")
	fill(t, s, "job/", "task/other")
	for prefix, want := range map[string][]string{
		"":        {"plan/1", "task/a", "task/a/attempt/1", "task/ab", "task/b", "taskx"},
		"task":    {"task/a", "task/a/attempt/1", "task/ab", "task/b", "taskx"},
		"task/":   {"task/a", "task/a/attempt/1", "task/ab", "task/b"},
		"task/a":  {"task/a", "task/a/attempt/1", "task/ab"},
		"task/a/": {"task/a/attempt/1"},
		"taskx":   {"taskx"},
		"taskxy":  {},
		"q":       {},
		"z":       {},
	} {
		wantSorts(t, "prefix "+prefix, queryAll(t, s, "job/1", prefix, 0), want)
	}
}

func testQueryByteOrder(t *testing.T, s store.Store) {
	want := slices.Clone(oddKeys)
	slices.Sort(want)
	fill(t, s, "p", oddKeys...)
	for _, limit := range []int{0, 1, 7} {
		wantSorts(t, "everything", queryAll(t, s, "p", "", limit), want)
	}
	for _, prefix := range oddKeys {
		var matching []string
		for _, k := range want {
			if strings.HasPrefix(k, prefix) {
				matching = append(matching, k)
			}
		}
		wantSorts(t, "prefix "+prefix, queryAll(t, s, "p", prefix, 3), matching)
	}
	for _, k := range oddKeys {
		wantRecord(t, s, key("p", k), 1, k)
	}
}

func testQueryPages(t *testing.T, s store.Store) {
	keys := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}
	fill(t, s, "p", append(keys, "z")...)
	fill(t, s, "o", "x")
	fill(t, s, "q", "a")
	for limit := range 12 {
		wantSorts(t, "pages", queryAll(t, s, "p", "", limit), append(slices.Clone(keys), "z"))
		wantSorts(t, "pages of a prefix", queryAll(t, s, "p", "z", limit), []string{"z"})
	}
}

func testQueryAfter(t *testing.T, s store.Store) {
	fill(t, s, "p", "a", "b/1", "b/2", "b/3", "c")
	for _, c := range []struct {
		prefix, after string
		want          []string
	}{
		{"", "a", []string{"b/1", "b/2", "b/3", "c"}},
		{"", "b/11", []string{"b/2", "b/3", "c"}}, // a key without a record
		{"", "\x00", []string{"a", "b/1", "b/2", "b/3", "c"}},
		{"", "c", nil},
		{"", "d", nil},
		{"b/", "b/1", []string{"b/2", "b/3"}},
		{"b/", "a", []string{"b/1", "b/2", "b/3"}}, // before the prefix
		{"b/", "b/", []string{"b/1", "b/2", "b/3"}},
		{"b/1", "b/1", nil},
		{"b/", "b/3", nil},
		{"b/", "c", nil}, // past the prefix
	} {
		records, more, err := s.Query(t.Context(), "p", c.prefix, store.Page{After: c.after})
		if err != nil || more {
			t.Errorf("Query(%q after %q): more %v, error %v", c.prefix, c.after, more, err)
		}
		wantSorts(t, c.prefix+" after "+c.after, records, c.want)
	}
}

func testQueryBoundaries(t *testing.T, s store.Store) {
	for _, k := range []store.Key{
		key("a", "b/c"), key("a/b", "c"), key("a/b/", "c"), key("a\x00", "b"), key("a", "\x00b"), key("a\x00b", "c"),
		key("a\x01", "b"), key("a", "\x01b"), key("ab", "c"), key("a", "bc"), key("\x00", "\x00"),
		key("\x00\x00", "\x00"), key("\U0010ffff", "a"),
	} {
		commit(t, s, put(k, store.Absent, k.String()))
	}
	for partition, want := range map[string][]string{
		"a": {"\x00b", "\x01b", "b/c", "bc"}, "a/b": {"c"}, "a/b/": {"c"}, "a\x00": {"b"}, "a\x00b": {"c"},
		"a\x01": {"b"}, "ab": {"c"}, "\x00": {"\x00"}, "\x00\x00": {"\x00"}, "\U0010ffff": {"a"}, "b": {},
	} {
		for _, limit := range []int{0, 1} {
			got := queryAll(t, s, partition, "", limit)
			wantSorts(t, "partition "+partition, got, want)
			for _, r := range got {
				if r.Key.Partition != partition || string(r.Body) != r.Key.String() {
					t.Errorf("a query of %q returned %s", partition, show(r))
				}
			}
		}
	}
}

func testQueryMore(t *testing.T, s store.Store) {
	fill(t, s, "p", "a", "b", "c", "d")
	for _, c := range []struct {
		prefix string
		page   store.Page
		more   bool
	}{
		{"", store.Page{Limit: 3}, true},
		{"", store.Page{Limit: 4}, false},
		{"", store.Page{Limit: 5}, false},
		{"", store.Page{}, false},
		{"", store.Page{Limit: 1, After: "b"}, true},
		{"", store.Page{Limit: 1, After: "c"}, false},
		{"a", store.Page{Limit: 1}, false}, // others follow, without the prefix
	} {
		if _, more, err := s.Query(t.Context(), "p", c.prefix, c.page); err != nil || more != c.more {
			t.Errorf("Query(%q, %+v): more %v, error %v, want more %v", c.prefix, c.page, more, err, c.more)
		}
	}
}

func testQueryPageBytes(t *testing.T, s store.Store) {
	body := bytes.Repeat([]byte("x"), 300<<10)
	want := []string{"a", "b", "c", "d", "e", "f", "g"}
	for _, k := range want {
		commit(t, s, store.Write{Op: store.Put, Key: key("p", k), Expect: store.Absent, Body: body})
	}
	records, more, err := s.Query(t.Context(), "p", "", store.Page{Limit: len(want)})
	if err != nil {
		t.Fatalf("Query: %v", err)
	}
	if len(records)*len(body) > store.MaxPageBytes || !more {
		t.Errorf("a page of %d records of %d bytes, more %v", len(records), len(body), more)
	}
	for _, limit := range []int{0, 1, 2, len(want)} {
		all := queryAll(t, s, "p", "", limit)
		wantSorts(t, "pages", all, want)
		for _, r := range all {
			if !bytes.Equal(r.Body, body) {
				t.Errorf("%s has another body", show(r))
			}
		}
	}
}

func testQueryRecords(t *testing.T, s store.Store) {
	a, b := put(key("p", "a"), store.Any, "body of a"), put(key("p", "b"), store.Any, "")
	a.Expires = epoch.AddDate(100, 0, 0)
	commit(t, s, a, b)
	commit(t, s, a)
	got := queryAll(t, s, "p", "", 0)
	want := []store.Record{
		{Key: a.Key, Version: 2, Body: a.Body, Expires: a.Expires},
		{Key: b.Key, Version: 1},
	}
	if !slices.EqualFunc(got, want, sameRecord) {
		t.Errorf("Query = %+v, want %+v", got, want)
	}
	if direct := get(t, s, a.Key, b.Key); !slices.EqualFunc(got, direct, sameRecord) {
		t.Errorf("Query = %+v, Get = %+v", got, direct)
	}
}

func testQueryNothing(t *testing.T, s store.Store) {
	fill(t, s, "p", "a")
	for _, q := range [][2]string{{"none", ""}, {"none", "a"}, {"p", "b"}, {"p", "aa"}} {
		records, more, err := s.Query(t.Context(), q[0], q[1], store.Page{})
		if err != nil || more || len(records) != 0 {
			t.Errorf("Query(%q, %q) = %v, %v, %v", q[0], q[1], records, more, err)
		}
	}
}

func testQueryDeleted(t *testing.T, s store.Store) {
	fill(t, s, "p", "a", "b", "c", "d")
	records, more, err := s.Query(t.Context(), "p", "", store.Page{Limit: 2})
	if err != nil || !more || len(records) != 2 {
		t.Fatalf("Query = %v, %v, %v", records, more, err)
	}
	commit(t, s, del(records[1].Key, store.Any), del(key("p", "c"), store.Any))
	rest, more, err := s.Query(t.Context(), "p", "", store.Page{Limit: 2, After: records[1].Key.Sort})
	if err != nil || more {
		t.Fatalf("Query of the rest: more %v, error %v", more, err)
	}
	wantSorts(t, "the rest", rest, []string{"d"})
}

func testQueryLong(t *testing.T, s store.Store) {
	var want []string
	for i := range 1500 {
		want = append(want, "task/"+string([]byte{'a' + byte(i/26/26%26), 'a' + byte(i/26%26), 'a' + byte(i%26)}))
	}
	fill(t, s, "long", want...)
	for _, limit := range []int{0, 100} {
		wantSorts(t, "a long partition", queryAll(t, s, "long", "task/", limit), want)
	}
}
