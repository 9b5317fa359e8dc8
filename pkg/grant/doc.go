// Package grant is the port by which the broker lets a machine read and write exactly the objects of its attempt: it
// signs URLs that expire, in batches, and the machine uses them with an HTTP client. So no key, no cloud's SDK and no
// right to list is on a machine, and what leaks from one ends by itself.
//
// One Store is one cloud; its driver is a sub-package (s3grant, gcsgrant, azgrant, filegrant), so that a program links
// those it uses. A Mux finds the store of a URI, and a Scope refuses what an attempt may not reach before any driver
// is asked:
//
//	stores := grant.Mux{"s3": s3grant.New(client, s3grant.Options{}), "s3://in-tokyo": tokyo, "file": local}
//	scope := grant.Scope{Read: []string{"s3://in/data"}, Write: []string{"s3://out/job-7/3/"}}
//	grants, err := scope.Over(stores).Sign(ctx,
//		grant.Want{Op: grant.Get, URI: "s3://in/data/a.csv", For: time.Hour},
//		grant.Want{Op: grant.Put, URI: "s3://out/job-7/3/log", For: time.Hour, Size: 512})
//
// # Multipart uploads
//
// Parts alone are granted. The broker begins an upload, signs its parts, and completes or aborts it, on every cloud:
//
//   - An upload that a machine began and died before it told of could not be found and ended. The broker knows those it
//     began, and aborts them when the attempt is over.
//   - To begin one is a right to use as often as one likes until it expires, each time leaving what is paid for.
//   - Which parts make the object is known only at the end, so that the broker would be asked once more anyway.
//     Completing it itself, the broker also decides that the attempt is still the one that counts.
//   - The agent knows neither S3's XML nor Azure's. Of a part it returns the ETag header.
//
// It costs two calls of the broker for an object of more than one part. What was neither completed nor aborted is
// removed by the bucket's rule (S3 and Google: AbortIncompleteMultipartUpload), after a week (Azure), or by
// filegrant's Sweep.
//
// Listing and removing are the broker's as well: no URL is granted for either, as a list cannot be bounded to what an
// attempt may read on every cloud, and what was removed cannot be had back.
//
// # What a cloud binds
//
// All bind the object, the expiry and reading or writing. S3, Google and filegrant also bind the method, the length of
// the body, the checksum, a range, and the upload and number of a part. Azure binds the last three with a user
// delegation key alone, and never the length: there, and for Google's parts, it is the MD5 that bounds a body (see
// azgrant and gcsgrant). A grant may be used more often than once, so that a request whose answer was lost can be
// repeated.
package grant
