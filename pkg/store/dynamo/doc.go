// Package dynamo keeps records in one DynamoDB table: the store of the AWS
// deployment. It keeps no state between calls that another process would need,
// so any number of functions work on one table.
//
// # Table
//
// The partition key is pk, the sort key sk; TableInput has the rest, for the deployment's template
// and for tests. A record is one item, so what the records cost is seen from their number and size:
//
//	pk   S  the record's partition; "=" stands before one that looks like the outbox's, or like an escaped one
//	sk   S  the record's sort key
//	v    N  the version
//	b    B  the body; absent when empty
//	ttl  N  when it expires, in seconds since 1970; DynamoDB removes it within days, Sweep does nothing
//	t    B  the token of a single put, see below
//
// The events of a transaction are packed into one item where they fit (compressed, where
// that saves a unit of writing), in one of a few partitions "outbox#N", under a sort key that grows
// with time. Stream records of such items (INSERT, pk with that prefix) are what the relay is fed
// with: FromRecord and Store.Feed. What it does not get to is found by Outbox.
//
// # Transactions
//
// Commit is one TransactWriteItems, whose condition on each item is the version expected. It
// carries an idempotency token, so an attempt whose answer was lost is repeated safely. A condition that does
// not hold is a conflict, and so is another transaction at work on the same items after some
// tries. A transaction of one item is a plain conditional write at half the price; a check alone is a read.
//
// Plain writes have no such token. A put therefore carries one of its own in the item, by which it knows itself when an
// answer was lost. A delete has nowhere to carry one: where its answer was lost and the record is
// gone, Commit fails with ErrUnknownOutcome, never with a conflict that may be its own doing. A put or delete of
// any version that is repeated is applied twice, as if two had been asked for.
//
// Throttling is first stood by retries (Options.Attempts), then store.ErrThrottled. Batch reads and
// deletes are asked again for what DynamoDB left unprocessed.
//
// # Cost
//
// A write unit is a kilobyte begun, and counts twice in a transaction. A Meter counts requests and units; by the
// benchmark beside, a task's transition of four small records and two events takes one request and ten write
// units, and one more when its events are removed.
//
// # Emulators
//
// The conformance suite runs on DynamoDB Local and on moto. Seen of DynamoDB Local 2.5.2: it
// reports no units for a cancelled transaction, nothing for an absent key of a batch, half a unit for an empty
// consistent query and, of a transaction, twice what an item above a kilobyte costs; so
// the Meter computes by the price list and keeps what was reported beside. Seen of moto 5.2: it measures
// binary values by their base64, so that items above some 290 KB are refused; its transactions
// restore the whole table when they fail, and with it what other requests wrote meanwhile, so the tests send it one
// request at a time; they copy the table for each item, so long partitions take minutes; its units are constants; and
// nothing expires.
package dynamo
