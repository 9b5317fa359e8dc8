// Package dynamo keeps records in one DynamoDB table. It is the store of the AWS
// deployment. A Store has no state that another process would need, so any number
// of functions can work on one table.
//
// # Table
//
// The partition key is pk and the sort key sk; TableInput defines the rest, for the deployment's template
// and for tests. A record is one item, so the cost of records follows from their number and size:
//
//	pk   S  the record's partition; prefixed with "=" if it looks like an outbox or an escaped partition
//	sk   S  the record's sort key
//	v    N  the version
//	b    B  the body; absent when empty
//	ttl  N  when it expires, in seconds since 1970; DynamoDB removes it within days, Sweep does nothing
//	t    B  the token of a single put, see below
//
// The events of a transaction are packed into one item if they fit (compressed, if
// that saves a write unit), in one of a few partitions "outbox#N", with a sort key that grows
// with time. The stream records of such items (INSERT, pk with that prefix) feed the relay:
// FromRecord and Store.Feed. Outbox finds the events that the relay missed.
//
// # Transactions
//
// Commit is one TransactWriteItems, whose condition on each item is the expected version. It
// carries an idempotency token, so repeating a request whose answer was lost is safe. A condition that does
// not hold is a conflict. So is another transaction that keeps writing the same items after a few
// retries. A transaction of one item is a plain conditional write at half the price; a single check is a read.
//
// Plain writes have no such token. A put therefore stores its own token in the item, so that it recognises itself if
// an answer was lost. A delete cannot store one: if its answer was lost and the record does not exist,
// Commit fails with ErrUnknownOutcome, never with a conflict that it may have caused itself. A repeated put or
// delete with Any is applied twice, as if the caller had made it twice.
//
// Throttled requests are retried (Options.Attempts), then fail with store.ErrThrottled. Batch reads and
// deletes repeat the requests that DynamoDB left unprocessed.
//
// # Cost
//
// A write unit is one started kilobyte, and counts twice in a transaction. A Meter counts requests and units.
// According to BenchmarkCommit, a task's transition of four small records and two events takes one request and ten
// write units, and one more unit when its events are removed.
//
// # Emulators
//
// The conformance suite runs on DynamoDB Local and on moto. DynamoDB Local 2.5.2 reports no units for a cancelled
// transaction, nothing for a missing key of a batch, half a unit for an empty consistent query and, in a
// transaction, twice the cost of an item above a kilobyte. So the Meter computes units from the price list and keeps
// the reported units separately. moto 5.2 measures binary values by their base64 length, so it rejects items above
// about 290 KB. A failing transaction in moto restores the whole table and undoes what other requests wrote meanwhile,
// so the tests send it one request at a time. It also copies the table for each item of a transaction, so long
// partitions take minutes. Its units are constants, and nothing expires.
package dynamo
