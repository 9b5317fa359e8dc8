// Package lambdacloud simulates Lambda's GPU cloud (cloud.lambda.ai, not related to AWS Lambda): an HTTP
// server with its REST API, with state in memory and with failures that Go code can inject. It replaces a real
// account in the tests of internal/cloud/lambdalabs and in rehearsals; nothing here is part of the product.
//
// Every request and answer is checked against openapi.json, an excerpt of Lambda's published description. Mismatches
// are reported to Config.Fault. With a folder, it boots machines as processes that run their user data; without one,
// machines are only records.
package lambdacloud
