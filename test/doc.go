// Package test is the index of what is proved and where. The doc.go or package comment
// of each directory says how. Tiers 0 and 1 run with `go test ./...`, and those that ask
// libvirt are skipped without it; the others have a command of their own (CONTRIBUTING.md).
//
// Results of a mutation, tier 0:
//
//	pkg/plan               what changes and what explain prints, case by case: TestGolden
//	pkg/plan               rules, second call, order of inputs and of the guest, Answer and plan agree with the bytes: TestInvariants, TestKeys
//	pkg/tools/cases        cases of any form give one result, and what cannot be read is named by line: TestForms, TestDifference, TestRefused
//	pkg/plan               damaged and random input: TestDamaged, FuzzMutate
//	pkg/plan               an added hostdev is virt-launcher's: TestKubeVirtHostdevs
//	pkg/plan               any tree becomes any other: TestReplace, TestReplaceBesideReferenced
//	pkg/plan               the pciBus of an SMMUv3 names the expander bus that it named: TestPCIBusFollows
//	pkg/plan               strict: TestStrictOverBoot, TestStrictNearBudget, TestBootOnMigrationTarget, TestRefusal
//	test/matrix            path types and order as promised, on real and random hosts: TestHosts, TestTrees, TestAuto, TestNeverWorse
//	test/matrix            the same beside devices that have to stay, on random domains: TestBesideStaying
//	test/matrix            trees that KubeVirt may come to make: TestCoreTrees
//	pkg/consumers          what consumers decide on random hosts, and in flat guests: TestRandomHosts
//	test/atlas             public machines in these trees, docs/comparison.md: TestPage
//	pkg/tools/recorded     hosts of records have the records' paths: TestMachines
//	pkg/tools/paste        what programs print of machines, and as people paste it; lstopo files as hwloc reads them: TestMachines, TestShapes, TestFormats, TestLstopo, FuzzRead
//	pkg/tools/paste        the tests' printers write as pciutils and hwloc do: TestPciutils, TestHwloc
//	pkg/tools/verdict      verdicts about public threads, cut texts, hosts in each format: TestThreads, TestCut, TestHostByNumbers, FuzzVerdict
//	test/corpus            files that others made are read with CORPUS only, and none is here: TestNothingBorrowed
//	test/matrix            the largest guests: TestBudgets, TestSixteenSwitches, TestCoarser, TestShrink, TestShrinkFunctions
//	pkg/placement          controllers of others, and predicted addresses: TestUnmanagedControllers, TestPredictMirror
//	pkg/domain             bytes outside the edits stay: TestSamplesWithoutEdits, TestLibvirtTestdata, FuzzApply
//	pkg/tools/cluster/fit  VMs that fit are those that the scheduler allocates: TestHosts, TestRandomFleets, TestPage
//	pkg/tools/cluster/why  what programs print has one cause, logs of VMs that are well have none; no secrets: TestCauses, TestWell, TestSecrets
//	test/tree              the tests' own reader and its rules can fail: TestRead, TestViolations
//	test/docs              pages agree with tables and code: TestTablesHaveEveryConstant, TestGenerated, TestLinks
//
// libvirt, tier 1:
//
//	pkg/plan           accepts each result with --validate and keeps it: TestLibvirt, TestNothingElseMoves
//	pkg/plan           calls of a boot converge: TestBoot, TestNCCLEntry
//	pkg/plan           on i440fx nothing moves, or nothing is added: TestOnI440FX
//	pkg/plan           disks, NICs, controllers stay: TestNothingElseMoves, TestNothingElseMovesFromUnaddressed
//	pkg/libvirt/alloc  the simulation gives the addresses that libvirt gives, on random domains: TestLikeLibvirt
//	test/matrix        accepts results on random hosts: TestTreesLibvirt
//	test/matrix        moves nothing in random domains of any shape, and predictions hold: TestShapes
//	test/matrix        all calls of a boot give one answer on such domains: TestCalls
//	test/oracle        the check can fail: TestRefused, TestAcceptedButWrong
//	test/oracle        an SMMUv3's ssidsize, by version: TestSSIDSize
//	test/readback      KubeVirt's rewriting is as recorded: TestSequenceReproducesTheRecordings, TestRealLauncher
//
// Other programs:
//
//	test/boot       tier 2, make boot, boot-sizes, boot-largest, recipe: TestKubeVirt, TestControls, TestLayouts, TestSizes, TestPCIHole, TestIOSpace, TestPortSpeed, TestSwitchPorts, TestVIOMMU, TestAArch64, TestOVMF2025, TestRecipe
//	test/boot       the same with Debian testing, make newest: TestGrace
//	test/nccl       tier 2, make nccl, by NCCL's code: TestAuto, TestAsHost, TestFiles, TestPorts, TestModel, TestAtlas, TestDump, TestJudge, TestComparison
//	test/judges     tier 2, make judges, by the code of UCX, hwloc and DRA: TestModels
//	test/boot       in the same lane, Linux's peer-to-peer DMA: TestPeers
//	test/cloudinit  tier 2, make cloudinit: TestParts, TestGuest
//	test/e2e        tier 3, make e2e: TestEndToEnd, TestExtras
//	test/launcher   tier 5, make launcher, launcher-e2e, with versions of the hooks, plugins, a migration's target: TestLauncher, TestNested
//	test/cluster    tier 6, make cluster, with docs/install.md and a user's rights: TestCluster
//
// Failures and hostile input (docs/troubleshooting.md):
//
//	pkg/plan            limits: TestLimit
//	pkg/kubevirt        VMIs that are too large: TestParseVMILimit, TestParseVMILarge
//	pkg/domain          two addresses; names are escaped: TestParseRefuses, TestApplyEscapes
//	pkg/host            sysfs that lies, loops or fails: TestReadHostHostile, TestReadHostHostileDirectory
//	pkg/hooks           errors and panics return the input: TestRefusal, TestInputIsReturned, TestPreCloudInitIso
//	pkg/hooks           sockets and the end: TestStaleSocketIsReplaced, TestOtherFileIsLeftAlone, TestEnd
//	pkg/sidecar         answers over 4 MiB, panics, standard error: TestAnswerTooLong, TestLogPanic, TestLogThatHangs
//	pkg/words           control characters: FuzzUntrusted
//	test/abuse          paths, quotes, devices that vanish: TestPathsStayInside, TestNothingUnescaped, TestSysfsVanishes
//	test/sidecar        the process: TestMemory, TestTermDuringCalls, TestFullDisk, TestLauncherEnds, TestPrivileges, TestWrongArguments
//	test/speed          a host that changes: TestLikeFresh
//	pkg/keys/cloudinit  data that cannot be merged: TestAnswerRefuses, TestMergeRefuses
package test
