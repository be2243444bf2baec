/** @returns a task that runs the given one at the first call, and does nothing at any other */
export function once(task: () => void): () => void {
  let done = false;
  return () => {
    if (done) return;
    done = true;
    task();
  };
}
