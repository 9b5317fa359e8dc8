package service_test

import (
	"fmt"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
)

func ExampleSparkSubmit() {
	app := service.App{
		Main: "s3://bucket/etl.py", PyFiles: []string{"s3://bucket/tables.py"},
		Executors: service.Executors{Min: 2, Max: 10},
	}
	fmt.Println(strings.ReplaceAll(strings.Join(service.SparkSubmit(app), " "), " --", "\n--"))
	// Output:
	// --py-files s3://bucket/tables.py
	// --conf spark.dynamicAllocation.enabled=true
	// --conf spark.dynamicAllocation.initialExecutors=2
	// --conf spark.dynamicAllocation.maxExecutors=10
	// --conf spark.dynamicAllocation.minExecutors=2
}
