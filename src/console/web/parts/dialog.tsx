// What stands above the page for a moment.

import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'

/** A dialog above the page while it is in the document; Escape closes it, and the focus goes back. */
export function Dialog({
  label,
  onClose,
  children,
}: {
  label: string
  onClose: () => void
  children: ComponentChildren
}) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const element = dialog.current
    element?.showModal()
    return () => element?.close()
  }, [])
  const close = (event: MouseEvent): void => {
    if (event.target === dialog.current) onClose()
  }
  return (
    <dialog ref={dialog} class="card" aria-label={label} onClose={onClose} onClick={close}>
      {children}
    </dialog>
  )
}
