// Package emr emulates Amazon EMR and EMR Serverless in front of moto, which has their records but runs nothing: its
// clusters are ready at once, its first step runs forever, and its job runs succeed at once. This emulator checks
// each request with moto, which also creates the IDs, and replaces the states in moto's answers by those of
// applications that it really runs. CancelSteps and client tokens, which moto lacks, are its own. Requests to other
// services go to moto unchanged. Nothing here is part of the product.
//
// Go code can inject failures: refusals, lost answers, lists that lag, late capacity, clusters that fail before they
// are ready or end under their steps. The time of clusters advances with each request. Auto-termination is recorded,
// but does not happen.
package emr
