// Command refresh is the Lambda function that renews the catalogue, and says what the deployment sees of its clouds.
package main

import "github.com/tradewind-broker/tradewind/internal/lambdahost/refreshing"

func main() { refreshing.Serve() }
