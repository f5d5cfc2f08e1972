/** Asks for confirmation before an action that cannot be undone. */

/** @returns whether the action was confirmed; Escape declines */
function ask(text: string): Promise<boolean> {
  const dialog = found<HTMLDialogElement>('ask')
  setBreakable(found('ask-text'), text)
  return new Promise(resolve => {
    const answered = new AbortController()
    const { signal } = answered
    found('ask-no').addEventListener('click', () => dialog.close('no'), { signal })
    found('ask-yes').addEventListener('click', () => dialog.close('yes'), { signal })
    dialog.addEventListener(
      'close',
      () => {
        answered.abort()
        resolve(dialog.returnValue === 'yes')
      },
      { signal },
    )
    dialog.returnValue = ''
    dialog.showModal()
  })
}
