package grant_test

import (
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// A scope allows or refuses a URI before any store is called.
func ExampleScope_Check() {
	scope := grant.Scope{Read: []string{"s3://in/data"}, Write: []string{"s3://out/job-7/3/"}}
	for _, uri := range []string{"s3://in/data/a.csv", "s3://in/other.csv", "s3://out/job-7/3/log"} {
		fmt.Println(scope.Check(grant.Want{Op: grant.Get, URI: uri, For: time.Hour}))
	}
	// Output:
	// <nil>
	// grant: outside of the scope: s3://in/other.csv
	// grant: outside of the scope: s3://out/job-7/3/log
}
