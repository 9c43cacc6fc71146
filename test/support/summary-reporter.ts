// Closes a test run with one plain line of counts, and names every test that did not run and why it may matter.

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
    console.log(`${passed} passed, ${failed} failed, ${skipped.length} skipped`)
  }
}
