// Package lambdacloud plays Lambda's GPU cloud (cloud.lambda.ai, which has nothing to do with AWS Lambda): an HTTP
// server that speaks its REST API, with state in memory and the bad days in it, steered from Go. It stands in for an
// account in the tests of pkg/cloud/lambda and in rehearsals; nothing here is part of the product.
//
// Every request and answer is held to the part of Lambda's published description that openapi.json has: what does not
// fit is a fault, which the test that made the server is told. Told a folder, it boots machines as processes that run
// their user data; without one they are records.
package lambdacloud
