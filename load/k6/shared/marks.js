// @ts-check
// A mark in a body, by which a batch is found again in the queue whatever key it came under.
// Plain JavaScript with no imports, so that Node and k6 both run it.

/** Of the body. The schema does not name it, so the service queues it as a member of `extra`. */
export const MARK_MEMBER = 'load_mark'

/** @param {string} body a JSON object with members @param {string} mark letters, digits and dashes */
export function markBody(body, mark) {
  return `{"${MARK_MEMBER}":"${mark}",${body.slice(1)}`
}
