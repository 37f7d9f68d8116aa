"""The texts of the page in English and in French, with the typography of each.

In a text ``{name}`` is replaced. Of a key with ``.one`` and ``.other`` the number ``n`` chooses the form.
In French ``~`` stands for the narrow no-break space (U+202F) before ; : ! ? and in « ».
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LANGUAGES = ("en", "fr")
NARROW = "\u202f"

_ENGLISH: dict[str, str] = {
    "about": "Texts are ranked on this machine by telerank.",
    "alternate": "Français",
    "answer": "Answer",
    "answer.confidence": "Confidence: {share}",
    "answer.cut.one": "The question is too long: its last word piece was not read.",
    "answer.cut.other": "The question is too long: its last {n} word pieces were not read.",
    "answer.failed": "The documents could not be read for an answer.",
    "answer.high": "high",
    "answer.look": "Look for an answer in the first documents",
    "answer.low": "low",
    "answer.medium": "medium",
    "answer.more": "Other possible answers",
    "answer.none": "No answer found",
    "answer.none.hint.one": "The one document that was read has no answer to this question.",
    "answer.none.hint.other": "None of the {n} documents that were read has an answer to this question. "
    "The results below may still help.",
    "answer.none.unread": "No document was found in which there could be one.",
    "answer.order": "Answers are in the order of their scores, in which the rank of the document counts, "
    "too; the confidence is the reader's alone.",
    "answer.reading": "Reading the first documents for an answer …",
    "answer.source": "From:",
    "answer.unsure": "No sure answer",
    "answer.unsure.show": "Show what was marked with little confidence ({share})",
    "answer.warning": "Marked by a program. Please check it in the document.",
    "api": "API",
    "back": "Back to the results",
    "box": "What are you looking for?",
    "box.hint": "A question or a few words",
    "compare": "Compare two rankings",
    "compare.both.one": "{n} document is in both lists.",
    "compare.both.other": "{n} of the first {of} documents are in both lists.",
    "compare.down.one": "{n} rank lower",
    "compare.down.other": "{n} ranks lower",
    "compare.equal": "same rank",
    "compare.hint": "A name, or a pipeline such as bm25(k1=0.9, b=0.4).",
    "compare.left": "First ranking",
    "compare.only": "only here",
    "compare.right": "Second ranking",
    "compare.submit": "Compare",
    "compare.unusable": "“{name}” cannot be used with this index.",
    "compare.up.one": "{n} rank higher",
    "compare.up.other": "{n} ranks higher",
    "document.after": "Next part",
    "document.before": "Previous part",
    "document.empty": "This document has no text.",
    "document.jump": "Go to the marked passage",
    "document.number": "Document number:",
    "document.page": "Page {page}",
    "document.part": "Part {n} of {of}",
    "document.parts": "Parts of the document",
    "error": "Error",
    "error.400": "This request cannot be read.",
    "error.401": "A key is needed to search here.",
    "error.403": "This was not sent from this page, so nothing was saved.",
    "error.404": "This page does not exist, or not any more.",
    "error.405": "This page cannot be used in this way.",
    "error.413": "This request is too long.",
    "error.422": "This search cannot be carried out as it was asked.",
    "error.424": "The search failed. The people who run this service can find the cause in its log.",
    "error.429": "Too many people search at this moment. Please try again shortly.",
    "error.500": "Something went wrong on our side. Please try again later.",
    "error.503": "The service is not ready, or did not answer in time. Please try again shortly.",
    "error.507": "This could not be saved. The people who run this service can find the cause in its log.",
    "error.detail": "What the service says:",
    "error.home": "New search",
    "error.retry": "Try again",
    "error.technical": "Technical details",
    "explain": "Why this rank?",
    "explain.absent": "not in this list",
    "explain.additive": "The bars show how much each part adds.",
    "explain.of": "rank {rank} of {of}",
    "explain.score": "score {score}",
    "explain.stages.one": "One stage ranked this document.",
    "explain.stages.other": "{n} stages ranked this document one after the other; the last one decides.",
    "explain.title": "Why this document has rank {rank}",
    "explain.title.absent": "Why this document is not in the ranking",
    "explain.unread": "not read",
    "facets": "Refine the results",
    "facets.depth.one": "Counted in the first result.",
    "facets.depth.other": "Counted in the first {n} results.",
    "facets.missing.one": "{n} without a value",
    "facets.missing.other": "{n} without a value",
    "facets.others.one": "and {n} further value",
    "facets.others.other": "and {n} further values",
    "filter.chosen": "Filters",
    "filter.remove": "(remove)",
    "follow.appended": "“{typed}” was added to the question before, “{earlier}”.",
    "follow.replaced": "“{typed}” took the place of a part of the question before, “{earlier}”.",
    "follow.topic": "“{typed}” was completed with what the question before is about, “{earlier}”.",
    "follow.undo": "Search “{typed}” as it is",
    "group": "One result per file",
    "group.all": "Show all results one by one",
    "group.cut.one": "Only the first passage was looked at.",
    "group.cut.other": "Only the first {n} passages were looked at: there may be further files and passages.",
    "group.further.one": "{n} further passage",
    "group.further.other": "{n} further passages",
    "group.rest.one": "and {n} more",
    "group.rest.other": "and {n} more",
    "home.documents.one": "{n} document can be searched.",
    "home.documents.other": "{n} documents can be searched.",
    "home.nothing": "There are no texts to search here.",
    "how": "How these results were ranked",
    "how.answer": "How this answer was found",
    "how.kept": "Kept",
    "how.stage": "Stage",
    "how.time": "Time",
    "how.total": "In all",
    "index": "Search in",
    "judge": "Is this what you were looking for?",
    "judge.again": "Search again with this document",
    "judge.down": "No, this does not help",
    "judge.failed": "Your opinion could not be saved. Please try again.",
    "judge.thanks": "Thank you, your opinion is saved.",
    "judge.up": "Yes, this helps",
    "language": "Language",
    "languages.unsure": "The language of this search is not sure; it was searched in each:",
    "loading": "Loading …",
    "next": "Next page",
    "none": "Nothing found",
    "none.conditions": "No document fulfils all conditions of this search.",
    "none.empty": "There are no documents here yet.",
    "none.hint": "No document has one of these words. Try others, or fewer.",
    "none.omitted": "This search has only words that the index leaves out, because nearly every text "
    "has them. Add a word that says more.",
    "none.respelled": "No document has “{query}”. These are the results for “{spelled}”.",
    "none.shown": "There are no results on this page.",
    "none.wordless": "This search has no words.",
    "page": "Page {n}",
    "paging": "Pages of results",
    "pipeline": "Ranked by",
    "pipeline.default": "the usual way",
    "pipeline.unusable": "“{name}” cannot be used with this index. Ranked instead by: {used}.",
    "place.page": "page {page}",
    "place.pages": "pages {first}–{last}",
    "place.passage": "Best passage ({n} of {of})",
    "previous": "Previous page",
    "range.from": "from",
    "range.submit": "Apply",
    "range.to": "to",
    "results": "Results",
    "results.all.one": "{n} result",
    "results.all.other": "{n} results",
    "results.for": "Results for “{query}”",
    "results.more": "Results {first} to {last} of more than {last}",
    "results.of": "Results {first} to {last} of {total}",
    "results.range": "Results {first} to {last}",
    "results.time": "in {time}",
    "search": "Search",
    "searching": "Searching …",
    "similar": "Similar documents",
    "similar.link": "Similar",
    "skip": "Go to the content",
    "source": "Source:",
    "spelling.meant": "Did you mean:",
    "spelling.typed": "Search for “{query}” as typed",
    "stage.dense": "Nearness of meaning",
    "stage.fused": "Several rankings combined",
    "stage.groups": "One result per file",
    "stage.other": "Ranking",
    "stage.passages": "Best passages",
    "stage.read": "Reading for an answer",
    "stage.rerank": "Second reading by a model",
    "stage.segments": "Second reading, passage by passage",
    "stage.words": "Words in common",
    "suggest": "Suggestions",
    "syntax.alternative": "is one possibility of several",
    "syntax.documents.one": "{n} document",
    "syntax.documents.other": "{n} documents",
    "syntax.excludes": "must not be there",
    "syntax.nothing": "too common a word to count",
    "syntax.problem": "This was searched as words alone:",
    "syntax.ranks": "ranks",
    "syntax.read": "How this search was read.",
    "syntax.requires": "must be there",
    "syntax.terms.all.one": "{n} term begins so",
    "syntax.terms.all.other": "{n} terms begin so",
    "syntax.terms.one": "the most frequent of {many} terms that begin so",
    "syntax.terms.other": "the {n} most frequent of {many} terms that begin so",
    "syntax.unread.one": "{n} more was not looked through",
    "syntax.unread.other": "{n} more were not looked through",
    "syntax.words": "Search for the words alone",
    "untitled": "Document without a title",
}

_FRENCH: dict[str, str] = {
    "about": "Les textes sont classés sur cette machine par telerank.",
    "alternate": "English",
    "answer": "Réponse",
    "answer.confidence": "Confiance~: {share}",
    "answer.cut.one": "La question est trop longue~: son dernier fragment de mot n’a pas été lu.",
    "answer.cut.other": "La question est trop longue~: ses {n} derniers fragments de mots n’ont pas été lus.",
    "answer.failed": "Les documents n’ont pas pu être lus pour trouver une réponse.",
    "answer.high": "élevée",
    "answer.look": "Chercher une réponse dans les premiers documents",
    "answer.low": "faible",
    "answer.medium": "moyenne",
    "answer.more": "Autres réponses possibles",
    "answer.none": "Aucune réponse trouvée",
    "answer.none.hint.one": "Le seul document lu ne contient pas de réponse à cette question.",
    "answer.none.hint.other": "Aucun des {n} documents lus ne contient de réponse à cette question. "
    "Les résultats ci-dessous peuvent tout de même vous aider.",
    "answer.none.unread": "Aucun document où elle pourrait se trouver n’a été trouvé.",
    "answer.order": "Les réponses sont dans l’ordre de leurs scores, où compte aussi le rang du document~; "
    "la confiance est celle du lecteur seul.",
    "answer.reading": "Lecture des premiers documents pour trouver une réponse…",
    "answer.source": "Extrait de~:",
    "answer.unsure": "Pas de réponse sûre",
    "answer.unsure.show": "Montrer ce qui a été repéré avec peu de confiance ({share})",
    "answer.warning": "Repérée par un programme. Vérifiez-la dans le document.",
    "api": "API",
    "back": "Retour aux résultats",
    "box": "Que cherchez-vous~?",
    "box.hint": "Une question ou quelques mots",
    "compare": "Comparer deux classements",
    "compare.both.one": "{n} document est dans les deux listes.",
    "compare.both.other": "{n} des {of} premiers documents sont dans les deux listes.",
    "compare.down.one": "{n} rang plus bas",
    "compare.down.other": "{n} rangs plus bas",
    "compare.equal": "même rang",
    "compare.hint": "Un nom, ou une suite d’étapes comme bm25(k1=0.9, b=0.4).",
    "compare.left": "Premier classement",
    "compare.only": "seulement ici",
    "compare.right": "Second classement",
    "compare.submit": "Comparer",
    "compare.unusable": "«~{name}~» n’est pas utilisable avec cet index.",
    "compare.up.one": "{n} rang plus haut",
    "compare.up.other": "{n} rangs plus haut",
    "document.after": "Partie suivante",
    "document.before": "Partie précédente",
    "document.empty": "Ce document n’a pas de texte.",
    "document.jump": "Aller au passage surligné",
    "document.number": "Numéro du document~:",
    "document.page": "Page {page}",
    "document.part": "Partie {n} sur {of}",
    "document.parts": "Parties du document",
    "error": "Erreur",
    "error.400": "Cette demande est illisible.",
    "error.401": "Il faut une clé pour chercher ici.",
    "error.403": "Cet envoi ne vient pas de cette page~; rien n’a été enregistré.",
    "error.404": "Cette page n’existe pas, ou n’existe plus.",
    "error.405": "Cette page ne s’utilise pas de cette manière.",
    "error.413": "Cette demande est trop longue.",
    "error.422": "Cette recherche ne peut pas être faite telle qu’elle est demandée.",
    "error.424": "La recherche a échoué. Ses responsables en trouveront la cause dans le journal.",
    "error.429": "Trop de personnes cherchent en ce moment. Réessayez dans un instant.",
    "error.500": "Une erreur s’est produite de notre côté. Réessayez plus tard.",
    "error.503": "Le service n’est pas prêt, ou n’a pas répondu à temps. Réessayez dans un instant.",
    "error.507": "L’enregistrement a échoué. Ses responsables en trouveront la cause dans le journal.",
    "error.detail": "Ce que dit le service~:",
    "error.home": "Nouvelle recherche",
    "error.retry": "Réessayer",
    "error.technical": "Détails techniques (en anglais)",
    "explain": "Pourquoi ce rang~?",
    "explain.absent": "absent de cette liste",
    "explain.additive": "Les barres montrent ce que chaque partie ajoute.",
    "explain.of": "rang {rank} sur {of}",
    "explain.score": "score {score}",
    "explain.stages.one": "Une seule étape a classé ce document.",
    "explain.stages.other": "{n} étapes ont classé ce document l’une après l’autre~; la dernière décide.",
    "explain.title": "Pourquoi ce document est au rang {rank}",
    "explain.title.absent": "Pourquoi ce document n’est pas dans le classement",
    "explain.unread": "non lu",
    "facets": "Affiner les résultats",
    "facets.depth.one": "Compté dans le premier résultat.",
    "facets.depth.other": "Compté dans les {n} premiers résultats.",
    "facets.missing.one": "{n} sans valeur",
    "facets.missing.other": "{n} sans valeur",
    "facets.others.one": "et {n} autre valeur",
    "facets.others.other": "et {n} autres valeurs",
    "filter.chosen": "Filtres",
    "filter.remove": "(retirer)",
    "follow.appended": "«~{typed}~» a été ajouté à la question précédente, «~{earlier}~».",
    "follow.replaced": "«~{typed}~» a pris la place d’une partie de la question précédente, «~{earlier}~».",
    "follow.topic": "«~{typed}~» a été complété par le sujet de la question précédente, «~{earlier}~».",
    "follow.undo": "Chercher «~{typed}~» tel quel",
    "group": "Un résultat par fichier",
    "group.all": "Voir tous les résultats un à un",
    "group.cut.one": "Seul le premier passage a été regardé.",
    "group.cut.other": "Seuls les {n} premiers passages ont été regardés~: il peut y avoir "
    "d’autres fichiers et d’autres passages.",
    "group.further.one": "{n} autre passage",
    "group.further.other": "{n} autres passages",
    "group.rest.one": "et {n} de plus",
    "group.rest.other": "et {n} de plus",
    "home.documents.one": "{n} document est consultable.",
    "home.documents.other": "{n} documents sont consultables.",
    "home.nothing": "Il n’y a pas de textes à consulter ici.",
    "how": "Comment ces résultats ont été classés",
    "how.answer": "Comment cette réponse a été trouvée",
    "how.kept": "Retenus",
    "how.stage": "Étape",
    "how.time": "Durée",
    "how.total": "En tout",
    "index": "Chercher dans",
    "judge": "Est-ce ce que vous cherchiez~?",
    "judge.again": "Chercher à nouveau avec ce document",
    "judge.down": "Non, cela ne m’aide pas",
    "judge.failed": "Votre avis n’a pas pu être enregistré. Réessayez.",
    "judge.thanks": "Merci, votre avis est enregistré.",
    "judge.up": "Oui, cela m’aide",
    "language": "Langue",
    "languages.unsure": "La langue de cette recherche n’est pas sûre~; chacune a été essayée~:",
    "loading": "Chargement…",
    "next": "Page suivante",
    "none": "Aucun résultat",
    "none.conditions": "Aucun document ne remplit toutes les conditions de cette recherche.",
    "none.empty": "Il n’y a pas encore de documents ici.",
    "none.hint": "Aucun document ne contient un de ces mots. Essayez-en d’autres, ou moins.",
    "none.omitted": "Cette recherche n’a que des mots que l’index laisse de côté, parce que presque "
    "tous les textes les contiennent. Ajoutez un mot plus précis.",
    "none.respelled": "Aucun document ne contient «~{query}~». Voici les résultats pour «~{spelled}~».",
    "none.shown": "Il n’y a pas de résultats sur cette page.",
    "none.wordless": "Cette recherche ne contient pas de mots.",
    "page": "Page {n}",
    "paging": "Pages de résultats",
    "pipeline": "Classés par",
    "pipeline.default": "la méthode habituelle",
    "pipeline.unusable": "«~{name}~» n’est pas utilisable avec cet index. Classés à sa place par~: {used}.",
    "place.page": "page {page}",
    "place.pages": "pages {first} à {last}",
    "place.passage": "Meilleur passage ({n} sur {of})",
    "previous": "Page précédente",
    "range.from": "de",
    "range.submit": "Appliquer",
    "range.to": "à",
    "results": "Résultats",
    "results.all.one": "{n} résultat",
    "results.all.other": "{n} résultats",
    "results.for": "Résultats pour «~{query}~»",
    "results.more": "Résultats {first} à {last} sur plus de {last}",
    "results.of": "Résultats {first} à {last} sur {total}",
    "results.range": "Résultats {first} à {last}",
    "results.time": "en {time}",
    "search": "Rechercher",
    "searching": "Recherche en cours…",
    "similar": "Documents semblables",
    "similar.link": "Semblables",
    "skip": "Aller au contenu",
    "source": "Source~:",
    "spelling.meant": "Vouliez-vous dire~:",
    "spelling.typed": "Chercher «~{query}~» tel quel",
    "stage.dense": "Proximité du sens",
    "stage.fused": "Plusieurs classements combinés",
    "stage.groups": "Un résultat par fichier",
    "stage.other": "Classement",
    "stage.passages": "Meilleurs passages",
    "stage.read": "Lecture pour une réponse",
    "stage.rerank": "Relecture par un modèle",
    "stage.segments": "Relecture passage par passage",
    "stage.words": "Mots en commun",
    "suggest": "Suggestions",
    "syntax.alternative": "est une possibilité parmi d’autres",
    "syntax.documents.one": "{n} document",
    "syntax.documents.other": "{n} documents",
    "syntax.excludes": "ne doit pas y être",
    "syntax.nothing": "un mot trop courant pour compter",
    "syntax.problem": "Seuls les mots ont été cherchés~:",
    "syntax.ranks": "compte pour le classement",
    "syntax.read": "Comment cette recherche a été lue.",
    "syntax.requires": "doit y être",
    "syntax.terms.all.one": "{n} terme commence ainsi",
    "syntax.terms.all.other": "{n} termes commencent ainsi",
    "syntax.terms.one": "le plus fréquent des {many} termes qui commencent ainsi",
    "syntax.terms.other": "les {n} plus fréquents des {many} termes qui commencent ainsi",
    "syntax.unread.one": "{n} autre n’a pas été parcouru",
    "syntax.unread.other": "{n} autres n’ont pas été parcourus",
    "syntax.words": "Chercher les mots seuls",
    "untitled": "Document sans titre",
}

TEXTS: Mapping[str, Mapping[str, str]] = {
    "en": _ENGLISH,
    "fr": {key: text.replace("~", NARROW) for key, text in _FRENCH.items()},
}
"""``TEXTS[language][key]``."""
_DECIMAL = {"en": ".", "fr": ","}
_THOUSANDS = {"en": ",", "fr": NARROW}


@dataclass(frozen=True)
class Messages:
    """The texts, numbers, shares and times of a language (``en`` or ``fr``)."""

    language: str

    def __call__(self, key: str, *, n: int | None = None, **values: object) -> str:
        """The text of a key; ``n`` chooses the form and is written as a number."""
        texts = TEXTS[self.language]
        if n is not None:
            values["n"] = self.number(n)
            form = "one" if n == 1 or (n == 0 and self.language == "fr") else "other"
            key = key if key in texts else f"{key}.{form}"
        return texts[key].format(**values)

    @property
    def other(self) -> str:
        """The other language."""
        return next(language for language in LANGUAGES if language != self.language)

    def number(self, value: float, decimals: int = 0) -> str:
        """A number with its thousands apart."""
        marks: dict[str, str | int | None] = {
            ",": _THOUSANDS[self.language],
            ".": _DECIMAL[self.language],
            "-": "\u2212",
        }
        return f"{value:,.{decimals}f}".translate(str.maketrans(marks))

    def score(self, value: float) -> str:
        """A score with four significant digits; very large and very small ones as a power of ten."""
        size = abs(value)
        if size and not 1e-4 <= size < 1e7:
            return f"{value:.3g}".replace(".", _DECIMAL[self.language]).replace("-", "\u2212")
        decimals = 4 if size < 1 else 3 if size < 10 else 2 if size < 1000 else 0
        return self.number(value, decimals)

    def share(self, value: float) -> str:
        """A part of one as a percentage."""
        percent = self.number(100 * value)
        return f"{percent}{NARROW}%" if self.language == "fr" else f"{percent}%"

    def time(self, seconds: float) -> str:
        """A duration in milliseconds, or in seconds from one second up."""
        if seconds >= 1:
            return f"{self.number(seconds, 1)}\u00a0s"
        milliseconds = 1000 * seconds
        return f"{self.number(milliseconds, 0 if milliseconds >= 10 else 1)}\u00a0ms"


def choose_language(accepted: str, chosen: str | None = None) -> str:
    """The language of a page: the one ``chosen``, or the first of the ``Accept-Language`` header that it has.

    English if there is none.
    """
    if chosen in LANGUAGES:
        return str(chosen)
    best, language = 0.0, LANGUAGES[0]
    for item in accepted.split(",")[:50]:
        name, *settings = item.lower().split(";")
        pairs = (setting.partition("=") for setting in settings)
        given = [value for setting, _, value in pairs if setting.strip() == "q"]
        try:
            quality = float(given[0]) if given else 1.0
        except ValueError:
            quality = 0.0
        primary = name.strip().partition("-")[0]
        if primary in LANGUAGES and quality > best:
            best, language = quality, primary
    return language
