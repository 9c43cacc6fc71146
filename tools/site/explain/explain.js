// @ts-check
// Judges what is pasted into explain.html by the service's own validator. Nothing leaves the page.

import { violations } from '../../../src/decode/validator.ts'

const body = /** @type {HTMLTextAreaElement} */ (document.getElementById('body'))
const verdict = /** @type {HTMLElement} */ (document.getElementById('verdict'))
const list = /** @type {HTMLElement} */ (document.getElementById('list'))

body.addEventListener('input', judge)
judge()

function judge() {
  list.replaceChildren()
  verdict.textContent = body.value.trim() === '' ? '' : verdictOf(new TextEncoder().encode(body.value))
}

/** Fills the list, too. @param {Uint8Array} bytes */
function verdictOf(bytes) {
  const result = violations(bytes, Date.now(), null)
  if (result.code === null) {
    const { events } = result
    return `202: the body fits, with ${events} event${events === 1 ? '' : 's'}, where an app has the key ${result.appKey} and its limits have room.`
  }
  for (const { path, message, start } of result.found) {
    const item = document.createElement('li')
    const where = start === null ? '' : `, line ${lineAt(bytes, start)}`
    item.append(element('code', path), `${where}: ${message}`)
    list.append(item)
  }
  const without = result.invalidEvents
  const cure = without?.length ? ` Without the events at ${without.join(', ')} it would fit.` : ''
  return `400 ${result.code}: ${result.message}.${cure}`
}

/** @param {Uint8Array} bytes @param {number} start */
function lineAt(bytes, start) {
  return bytes.subarray(0, start).reduce((lines, byte) => lines + Number(byte === 10), 1)
}

/** @param {string} name @param {string} text */
function element(name, text) {
  const made = document.createElement(name)
  made.textContent = text
  return made
}
