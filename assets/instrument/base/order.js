// Questions whose answers may come in another order than they were asked in.

/** Of several questions the newest one's answer counts; what an older one gives, or its failure, is undefined. */
export function newestOf() {
  let newest = 0;
  return async (answer) => {
    newest += 1;
    const number = newest;
    try {
      const value = await answer;
      return number === newest ? value : undefined;
    } catch (error) {
      if (number === newest) throw error;
      return undefined;
    }
  };
}

/** Each question goes out once the one before it was answered, so that none overtakes another. */
export function oneByOne() {
  let last = Promise.resolve();
  return (ask) => {
    last = last.then(ask, ask);
    return last;
  };
}
