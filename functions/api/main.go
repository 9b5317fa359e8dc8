// Command api is the Lambda function that serves users and agents over HTTP.
package main

import "github.com/tradewind-broker/tradewind/internal/lambdahost/apihost"

func main() { apihost.Serve() }
