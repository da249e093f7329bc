// Before the first paint: the chosen theme, or the system's.
(function () {
  var chosen = null;
  try {
    chosen = localStorage.getItem("tollway.theme");
  } catch (error) {
    chosen = null;
  }
  var dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
