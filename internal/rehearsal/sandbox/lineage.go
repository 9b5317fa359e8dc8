package sandbox

import (
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxChain is the number of times that one function may be invoked in a chain of requests. Lambda drops the next
// invocation (AWS Lambda developer guide, "Use Lambda recursive loop detection to prevent infinite loops":
// "approximately 16 times").
const maxChain = 16

// ErrRecursive means that Lambda dropped an invocation, because the function had been invoked too often in its chain of
// requests.
var ErrRecursive = errors.New("sandbox: the chain of requests invokes the function too often")

// Lineage counts the invocations of each function in a chain of requests. The SDK puts it into the tracing header of
// the requests that a function makes, and SQS, SNS, S3 and Lambda pass it on. DynamoDB's streams, EventBridge and
// schedules do not, so a chain ends there.
type Lineage map[string]int

// LineageOf reads the lineage in tracing headers, and counts the longest chain of several.
func LineageOf(headers ...string) Lineage {
	l := Lineage{}
	for _, h := range headers {
		if plain, err := url.PathUnescape(h); err == nil { // the SDK escapes some characters
			h = plain
		}
		_, list, _ := strings.Cut(h, "Lineage=")
		list, _, _ = strings.Cut(list, ";")
		for one := range strings.SplitSeq(list, "|") {
			function, count, _ := strings.Cut(one, ":")
			if n, err := strconv.Atoi(count); err == nil {
				l[function] = max(l[function], n)
			}
		}
	}
	return l
}

func (l Lineage) String() string {
	var list []string
	for _, function := range slices.Sorted(maps.Keys(l)) {
		list = append(list, fmt.Sprintf("%s:%d", function, l[function]))
	}
	return "Lineage=" + strings.Join(list, "|")
}

// key identifies the function in a lineage, like Lambda's hash.
func (f *Function) key() string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(f.ARN))) }

// Recursive reports whether Lambda drops an invocation that requests with these tracing headers cause, and counts it.
func (f *Function) Recursive(headers ...string) bool {
	if f.MayLoop || LineageOf(headers...)[f.key()] < maxChain {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.usage.Dropped++
	return true
}

// extend returns the tracing header of an invocation that requests with these headers cause.
func (f *Function) extend(headers []string) string {
	l := LineageOf(headers...)
	l[f.key()]++
	f.mu.Lock()
	f.usage.Chain = max(f.usage.Chain, l[f.key()])
	f.mu.Unlock()
	return trace() + ";" + l.String()
}
