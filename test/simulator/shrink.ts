// Shrinks a failing history: leaves out or reduces whatever it can while the same oracle still fails.

import type { History, Step } from './history.ts'
import type { Oracle } from './oracle.ts'

const MAX_RUNS = 400
const MAX_CPU_MS = 30_000
/** Time after the last step for its effects to show. */
const AFTER_LAST_MS = 1000

export async function shrink(
  history: History,
  oracle: Oracle,
  oracleOf: (history: History) => Promise<Oracle | null>,
): Promise<History> {
  let least = history
  let runs = 0
  const cpuAtStart = process.cpuUsage()
  const accept = async (candidate: History): Promise<boolean> => {
    if (runs >= MAX_RUNS || process.cpuUsage(cpuAtStart).user > MAX_CPU_MS * 1000) return false
    runs++
    if ((await oracleOf(candidate)) !== oracle) return false
    least = candidate
    return true
  }
  let isSmaller = true
  while (isSmaller) {
    isSmaller = false
    for (let size = Math.ceil(least.steps.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
      for (let from = 0; from < least.steps.length; ) {
        const steps = least.steps.filter((_, at) => at < from || at >= from + size)
        if (await accept({ ...least, steps })) isSmaller = true
        else from += size
      }
    }
    for (let at = 0; at < least.steps.length; at++) {
      for (const smaller of smallerSteps(least.steps[at])) {
        const steps = least.steps.map((step, place) => (place === at ? smaller : step))
        if (await accept({ ...least, steps })) isSmaller = true
      }
    }
    if (least.nodes > 1 && (await accept({ ...least, nodes: least.nodes - 1 }))) isSmaller = true
    const endMs =
      Math.max(0, ...least.steps.map(({ atMs, ...step }) => atMs + ('forMs' in step ? step.forMs : 0))) + AFTER_LAST_MS
    if (endMs < least.endMs && (await accept({ ...least, endMs }))) isSmaller = true
  }
  return least
}

/** Smaller versions of a step, the smallest first. */
function smallerSteps(step: Step): Step[] {
  if (step.kind !== 'send') return []
  const smaller: Step[] = []
  if (step.batches > 1) smaller.push({ ...step, batches: 1 }, { ...step, batches: Math.floor(step.batches / 2) })
  if (step.replays > 0) smaller.push({ ...step, replays: 0 })
  if (step.tries > 1) smaller.push({ ...step, tries: 1 }, { ...step, tries: step.tries - 1 })
  if (step.keyed) smaller.push({ ...step, keyed: false })
  if (step.events > 1) smaller.push({ ...step, events: 1 }, { ...step, events: Math.floor(step.events / 2) })
  return smaller
}
