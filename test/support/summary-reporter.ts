// Closes a test run: names every test that did not run and why it may matter, says where the time went by project, and ends with
// one plain line of counts. To test/run.js it says which files failed.

import { writeFileSync } from 'node:fs'
import type { Reporter, TestModule } from 'vitest/node'

export default class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    let passed = 0
    let failed = 0
    const skipped: string[] = []
    for (const module of modules) {
      if (module.errors().length > 0) failed++
      for (const test of module.children.allTests()) {
        const result = test.result()
        if (result.state === 'passed') passed++
        else if (result.state === 'failed') failed++
        else {
          const note = result.state === 'skipped' && result.note !== undefined ? ` (${result.note})` : ''
          skipped.push(`${module.relativeModuleId}: ${test.fullName}${note}`)
        }
      }
    }
    for (const name of skipped) console.log(`not run: ${name}`)
    for (const line of whereTimeWent(modules)) console.log(line)
    console.log(`${passed} passed, ${failed} failed, ${skipped.length} skipped`)
    const report = process.env['TEST_REPORT_FILE']
    if (report === undefined) return
    const bad = modules.filter((module) => !module.ok()).map((module) => module.relativeModuleId)
    writeFileSync(report, JSON.stringify({ ran: modules.length, failed: [...new Set(bad)] }))
  }
}

/** Files that are named of each project: the slowest. */
const SLOWEST = 5

/** By project, the longest first: the seconds that its files took, one after the other, and its slowest files. */
function whereTimeWent(modules: readonly TestModule[]): string[] {
  const seconds = (module: TestModule): number => {
    const { collectDuration, duration, setupDuration } = module.diagnostic()
    return Math.round((collectDuration + duration + setupDuration) / 1000)
  }
  const sum = (files: readonly TestModule[]): number => files.reduce((total, file) => total + seconds(file), 0)
  const projects = [...new Set(modules.map(({ project }) => project.name))]
  return projects
    .map((name) => [name, modules.filter(({ project }) => project.name === name)] as const)
    .toSorted(([, one], [, other]) => sum(other) - sum(one))
    .map(([project, files]) => {
      const slowest = files.toSorted((one, other) => seconds(other) - seconds(one)).slice(0, SLOWEST)
      const named = slowest.map((file) => `${file.relativeModuleId.replace(/^test\//, '')} ${seconds(file)}`)
      return `time: ${project} ${sum(files)} s in ${files.length} files: ${named.join(', ')}`
    })
}
