package emulator

import (
	"sync"
	"testing"
)

// Required is the environment variable that makes a test fail, instead of being skipped, if its emulator is not
// installed: for a run that must skip nothing.
const Required = "TRADEWIND_REQUIRE_EMULATORS"

// DynamoDBLocal returns the endpoint of DynamoDB Local. It keeps tables in memory, and all credentials and
// regions see the same tables.
func DynamoDBLocal(tb testing.TB) string {
	tb.Helper()
	return endpoint(tb, sharedDynamoDBLocal())
}

// Moto returns the endpoint of moto server, which emulates all services.
func Moto(tb testing.TB) string {
	tb.Helper()
	return endpoint(tb, sharedMoto())
}

// OwnMoto returns the endpoint of a moto server that only this test uses, until it ends.
func OwnMoto(tb testing.TB) string {
	tb.Helper()
	own := start(MotoServer())
	if own.process != nil {
		tb.Cleanup(own.process.Stop)
	}
	return endpoint(tb, own)
}

// Started once for each test binary, so that later tests neither wait nor get another
// error than the first.
var (
	sharedDynamoDBLocal = sync.OnceValue(func() started { return start(DynamoDBLocalServer()) })
	sharedMoto          = sync.OnceValue(func() started { return start(MotoServer()) })
)

type started struct {
	process *Process
	err     error
}

func start(s Server) started {
	p, err := Start(s)
	return started{process: p, err: err}
}
